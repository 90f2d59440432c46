"""Right: an atomic maximum."""

import torch
import triton
import triton.language as tl


@triton.jit
def highest_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = tl.max(tl.load(x + at, mask=at < n, other=float("-inf")), 0)
    tl.atomic_max(y, mine)


def highest(x):
    y = torch.full((), -3e38, device=x.device)
    highest_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
