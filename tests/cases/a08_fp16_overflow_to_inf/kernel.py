"""Right: infinite exactly where the reference is."""

import torch
import triton
import triton.language as tl


@triton.jit
def square_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + at, (value * value).to(tl.float16), mask=at < n)


def square(x):
    y = torch.empty_like(x)
    square_kernel[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
    return y
