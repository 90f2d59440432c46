"""Wrong: leaves out what the means of blocks differ by."""

import torch
import triton
import triton.language as tl


@triton.jit
def deviation_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    mean = 0.0
    squares = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        inside = columns < n
        value = tl.load(x + row * n + columns, mask=inside, other=0.0)
        count = tl.minimum(n - start, BLOCK).to(tl.float32)
        block_mean = tl.sum(value, 0) / count
        centred = tl.where(inside, value - block_mean, 0.0)
        delta = block_mean - mean
        squares += tl.sum(centred * centred, 0)
        mean += delta * count / (start + count)
    tl.store(y + row, tl.sqrt(squares / n))


def deviation(x):
    rows, n = x.shape
    y = torch.empty(rows, dtype=x.dtype, device=x.device)
    deviation_kernel[(rows,)](x, y, n, BLOCK=128)
    return y
