"""Wrong: exponentials of values as they are overflow from 89 on."""

import torch
import triton
import triton.language as tl


@triton.jit
def logsumexp_kernel(x, y, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, n, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * stride + columns, mask=columns < n, other=float("-inf")).to(tl.float32)
        total += tl.sum(tl.exp(value), 0)
    tl.store(y + row, tl.log(total))


def logsumexp(x):
    rows, n = x.shape
    y = torch.empty(rows, dtype=torch.float32, device=x.device)
    logsumexp_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=64)
    return y
