"""Wrong: the upper triangle of the output is never written."""

import torch
import triton
import triton.language as tl


@triton.jit
def lower_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    keep = (columns <= row) & (columns < n)
    tl.store(y + row * n + columns, tl.load(x + row * n + columns, mask=keep), mask=keep)


def lower(x):
    y = torch.empty_like(x)
    lower_kernel[(x.shape[0],)](x, y, x.shape[0], BLOCK=triton.next_power_of_2(x.shape[0]))
    return y
