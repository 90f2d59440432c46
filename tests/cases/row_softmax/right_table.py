"""Right: blocks from a table of sizes, larger than they need to be."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x, y, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    value = tl.load(x + row * stride + columns, mask=inside, other=float("-inf")).to(tl.float32)
    e = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * n + columns, e / tl.sum(e, 0), mask=inside)


def row_softmax(x):
    rows, n = x.shape
    y = torch.empty(rows, n, dtype=x.dtype, device=x.device)
    block = next(b for b in (64, 1024, 4096) if n <= b)
    softmax_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=block)
    return y
