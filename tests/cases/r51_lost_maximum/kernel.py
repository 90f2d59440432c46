"""Wrong now and then: a program looks at the maximum so far and replaces it, whatever came between."""

import torch
import triton
import triton.language as tl


@triton.jit
def highest_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mine = tl.max(tl.load(x + at, mask=at < n, other=float("-inf")), 0)
    if mine > tl.atomic_add(y, 0.0):
        tl.atomic_xchg(y, mine)


def highest(x):
    y = torch.full((), -3e38, device=x.device)
    highest_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
