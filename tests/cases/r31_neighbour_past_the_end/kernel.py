"""Wrong: reads one element past the end, and makes no use of it there."""

import torch
import triton
import triton.language as tl


@triton.jit
def step_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here, there = tl.load(x + at, mask=at < n, other=0.0), tl.load(x + at + 1, mask=at < n, other=0.0)
    tl.store(y + at, tl.where(at + 1 < n, there - here, 0.0), mask=at < n)


def step(x):
    y = torch.empty_like(x)
    step_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
