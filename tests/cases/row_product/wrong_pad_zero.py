"""Wrong: lanes past the row are zeros, and so is the product of every row that has some."""

import torch
import triton
import triton.language as tl


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def row_product_kernel(x, y, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + columns, mask=columns < n, other=0.0)
    tl.store(y + row, tl.reduce(value, 0, times))


def row_product(x):
    rows, n = x.shape
    y = torch.empty(rows, dtype=x.dtype, device=x.device)
    row_product_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))
    return y
