"""Wrong: the grid of x instead of the result's."""

import torch
import triton
import triton.language as tl


@triton.jit
def transpose_add_kernel(x, y, z, M, N, x_row, x_column, y_row, y_column, SIZE: tl.constexpr):
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)[:, None]
    columns = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    inside = (rows < N) & (columns < M)
    value = tl.load(x + columns * x_row + rows * x_column, mask=inside)
    other = tl.load(y + rows * y_row + columns * y_column, mask=inside)
    tl.store(z + rows * M + columns, value + other, mask=inside)


def transpose_add(x, y):
    m, n = x.shape
    z = torch.empty(n, m, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    transpose_add_kernel[grid](x, y, z, m, n, *x.stride(), *y.stride(), SIZE=32)
    return z
