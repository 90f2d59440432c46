"""Right: the minimum as the negated maximum, with the padding put in afterwards."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_min_kernel(x, y, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + columns, mask=columns < n, other=0.0)
    negated = tl.where(columns < n, -value, float("-inf"))
    tl.store(y + row, -tl.max(negated, 0))


def row_min(x):
    rows, n = x.shape
    y = torch.empty(rows, dtype=x.dtype, device=x.device)
    row_min_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))
    return y
