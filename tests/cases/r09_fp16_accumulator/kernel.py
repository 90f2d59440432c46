"""Wrong: adds in float16, which is too narrow for long rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    partial = tl.zeros((BLOCK,), dtype=tl.float16)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        partial += tl.load(x + row * n + columns, mask=columns < n, other=0.0)
    tl.store(y + row, tl.sum(partial, 0))


def row_sum(x):
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    row_sum_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=16)
    return y
