"""Wrong: the offset of a row is a product of two 32-bit integers, which wraps once rows lie 2**30 elements apart."""

import torch
import triton
import triton.language as tl


@triton.jit
def gather_kernel(x, rows, y, n, stride, BLOCK: tl.constexpr):
    place = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    row = tl.load(rows + place)
    value = tl.load(x + row * stride + columns, mask=columns < n)
    tl.store(y + place * n + columns, value, mask=columns < n)


def gather(x, rows):
    n = x.shape[1]
    y = torch.empty(rows.numel(), n, dtype=x.dtype, device=x.device)
    gather_kernel[(rows.numel(),)](x, rows, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))
    return y
