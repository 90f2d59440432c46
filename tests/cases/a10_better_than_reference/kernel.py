"""Right: two passes, much closer to the true variance than the reference is."""

import torch
import triton
import triton.language as tl


@triton.jit
def variance_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    value = tl.load(x + row * n + columns, mask=inside, other=0.0)
    centred = tl.where(inside, value - tl.sum(value, 0) / n, 0.0)
    tl.store(y + row, tl.sum(centred * centred, 0) / n)


def variance(x):
    rows, n = x.shape
    y = torch.empty(rows, dtype=x.dtype, device=x.device)
    variance_kernel[(rows,)](x, y, n, BLOCK=triton.next_power_of_2(n))
    return y
