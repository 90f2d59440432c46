"""Wrong: one program zeroes what all of them add to, and nothing says that it runs first."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x, y, n, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    if part == 0:
        tl.store(y + row, 0.0)
    columns = part * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + row, tl.sum(tl.load(x + row * n + columns, mask=columns < n, other=0.0), 0))


def row_sum(x):
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    row_sum_kernel[(x.shape[0], triton.cdiv(x.shape[1], 64))](x, y, x.shape[1], BLOCK=64)
    return y
