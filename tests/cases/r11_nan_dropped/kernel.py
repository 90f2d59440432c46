"""Wrong: a NaN loses every comparison, where the reference hands it on."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_max_kernel(x, y, n):
    row = tl.program_id(0)
    best = -float("inf")
    for column in range(n):
        value = tl.load(x + row * n + column)
        best = tl.where(value > best, value, best)
    tl.store(y + row, best)


def row_max(x):
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    row_max_kernel[(x.shape[0],)](x, y, x.shape[1])
    return y
