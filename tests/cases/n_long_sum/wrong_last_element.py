"""Wrong: the last element of rows of more than 32,768 is left out."""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum_kernel(x, y, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n, BLOCK):
        at = start + columns
        acc += tl.load(x + row * n + at, mask=at < n - (n > 32768), other=0.0).to(tl.float32)
    tl.store(y + row, tl.sum(acc, 0))


def row_sum(x):
    y = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    row_sum_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
    return y
