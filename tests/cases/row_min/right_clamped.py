"""Right: no mask; lanes past the row read its last element again."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_min_kernel(x, y, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + tl.minimum(columns, n - 1))
    tl.store(y + row, tl.min(value, 0))


def row_min(x):
    rows, n = x.shape
    y = torch.empty(rows, dtype=x.dtype, device=x.device)
    row_min_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))
    return y
