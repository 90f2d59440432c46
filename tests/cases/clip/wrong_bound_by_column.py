"""Wrong: takes the bounds for those of columns."""

import torch
import triton
import triton.language as tl


@triton.jit
def clip_kernel(x, low, y, n, high, row_step, step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + row * row_step + columns * step, mask=columns < n)
    least = tl.load(low + columns % tl.num_programs(0))
    result = tl.where(value < least, least, tl.where(value > high, high, value))
    tl.store(y + row * n + columns, result, mask=columns < n)


def clip(x, low, high):
    rows, n = x.shape
    y = torch.empty(rows, n, dtype=x.dtype, device=x.device)
    clip_kernel[(rows, triton.cdiv(n, 128))](x, low, y, n, high, *x.stride(), BLOCK=128)
    return y
