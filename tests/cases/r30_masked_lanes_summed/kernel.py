"""Wrong: sums lanes that no load has filled; they hold zeros here, and whatever they like elsewhere."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x, y, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + columns, mask=columns < n)
    tl.store(y + row, tl.sum(value, 0))


def row_sum(x):
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    row_sum_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
