"""Wrong: steps rows by their width and never asks for the stride."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf"))
    e = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * n + columns, e / tl.sum(e, 0), mask=columns < n)


def softmax(x):
    rows, n = x.shape
    y = torch.empty(rows, n, dtype=x.dtype, device=x.device)
    softmax_kernel[(rows,)](x, y, n, BLOCK=triton.next_power_of_2(n))
    return y
