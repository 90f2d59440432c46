"""Right: atomics in any order, so the last bits differ from run to run."""

import torch
import triton
import triton.language as tl


@triton.jit
def total_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y, tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))


def total(x):
    y = torch.zeros((), device=x.device)
    total_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
