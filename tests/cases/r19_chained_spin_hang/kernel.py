"""Wrong: each program waits for the one before it, which need not have started."""

import torch
import triton
import triton.language as tl


@triton.jit
def prefix_sum_kernel(x, y, totals, flags, n, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    running = tl.cumsum(tl.load(x + at, mask=at < n, other=0.0), 0)
    base = 0.0
    if part > 0:
        while tl.atomic_add(flags + part - 1, 0) == 0:
            pass
        base = tl.load(totals + part - 1)
    tl.store(totals + part, base + tl.max(running, 0))
    tl.atomic_xchg(flags + part, 1)
    tl.store(y + at, running + base, mask=at < n)


def prefix_sum(x):
    parts = triton.cdiv(x.numel(), 64)
    y, totals = torch.empty_like(x), torch.zeros(parts, device=x.device)
    flags = torch.zeros(parts, dtype=torch.int32, device=x.device)
    prefix_sum_kernel[(parts,)](x, y, totals, flags, x.numel(), BLOCK=64)
    return y
