"""Wrong: reads positions that other programs have written already."""

import triton
import triton.language as tl


@triton.jit
def reverse_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + n - 1 - at, mask=at < n)
    tl.store(x + at, value, mask=at < n)


def reverse_(x):
    reverse_kernel[(triton.cdiv(x.numel(), 64),)](x, x.numel(), BLOCK=64)
    return x
