"""Wrong: keeps what should go."""

import torch
import triton
import triton.language as tl


@triton.jit
def dropout_kernel(x, y, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    keep = tl.rand(seed, at) < p
    tl.store(y + at, tl.where(keep, value / (1 - p), 0.0), mask=at < n)


def dropout(x, p, seed):
    y = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), p, seed, BLOCK=1024)
    return y
