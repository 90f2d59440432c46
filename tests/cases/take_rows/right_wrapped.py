"""Right: negative indices are moved up by the number of rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def take_rows_kernel(table, index, out, v, d, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    row = tl.load(index + at)
    row = tl.where(row < 0, row + v, row)
    tl.store(out + at * d + columns, tl.load(table + row * stride + columns, mask=columns < d), mask=columns < d)


def take_rows(table, index):
    (v, d), count = table.shape, index.numel()
    out = torch.empty(count, d, dtype=table.dtype, device=table.device)
    take_rows_kernel[(count,)](table, index, out, v, d, table.stride(0), BLOCK=triton.next_power_of_2(d))
    return out
