"""Wrong: passes through float16, which has no numbers below 6e-8."""

import torch
import triton
import triton.language as tl


@triton.jit
def scaled_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    out = (value.to(tl.float16) * 0.3).to(tl.float32)
    tl.store(y + at, out, mask=at < n)


def scaled(x):
    y = torch.empty_like(x)
    scaled_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
