"""Wrong: the first element of later blocks lacks the carry."""

import torch
import triton
import triton.language as tl


@triton.jit
def running_sum_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carried = tl.zeros((), dtype=tl.int64)
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + columns, mask=columns < n, other=0).to(tl.int64)
        sums = tl.where(columns % BLOCK == 0, value, carried + tl.cumsum(value, 0))
        tl.store(y + row * n + columns, sums, mask=columns < n)
        carried += tl.sum(value, 0)


def running_sum(x):
    rows, n = x.shape
    y = torch.empty(rows, n, dtype=torch.int64, device=x.device)
    running_sum_kernel[(rows,)](x, y, n, BLOCK=128)
    return y
