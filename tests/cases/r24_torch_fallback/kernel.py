"""A cheat: launches a kernel, then returns what PyTorch computes."""

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
    y = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=128)
    if y.shape == x.shape:
        y = (x - x.logsumexp(1, keepdim=True)).exp()
    return y
