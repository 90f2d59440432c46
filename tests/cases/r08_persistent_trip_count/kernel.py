"""Wrong: 64 programs make four trips each; rows from 256 on stay at the zero they began with."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x, y, rows, n, BLOCK: tl.constexpr, TRIPS: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    for trip in range(TRIPS):
        row = tl.program_id(0) + trip * tl.num_programs(0)
        if row < rows:
            value = tl.load(x + row * n + columns, mask=columns < n, other=0.0)
            tl.store(y + row, tl.sum(value, 0))


def row_sum(x):
    rows, n = x.shape
    y = torch.zeros(rows, dtype=x.dtype, device=x.device)
    row_sum_kernel[(64,)](x, y, rows, n, BLOCK=triton.next_power_of_2(n), TRIPS=4)
    return y
