"""Right: NaN and infinity exactly where torch has them."""

import torch
import triton
import triton.language as tl


@triton.jit
def root_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.sqrt(tl.load(x + at, mask=at < n, other=0.0)), mask=at < n)


def root(x):
    y = torch.empty_like(x)
    root_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y
