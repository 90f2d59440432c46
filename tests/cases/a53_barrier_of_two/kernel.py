"""Right where two programs run at once: each waits for the other's half of the sum."""

import torch
import triton
import triton.language as tl


@triton.jit
def centre_kernel(x, y, parts, arrived, n, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    total = 0.0
    for start in range(part * BLOCK, n, 2 * BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    tl.store(parts + part, total)
    tl.atomic_add(arrived, 1, sem="acq_rel")
    while tl.atomic_add(arrived, 0, sem="acquire") < 2:
        pass
    mean = (tl.load(parts) + tl.load(parts + 1)) / n
    for start in range(part * BLOCK, n, 2 * BLOCK):
        at = start + tl.arange(0, BLOCK)
        tl.store(y + at, tl.load(x + at, mask=at < n) - mean, mask=at < n)


def centre(x):
    y, parts = torch.empty_like(x), torch.empty(2, device=x.device)
    arrived = torch.zeros((), dtype=torch.int32, device=x.device)
    centre_kernel[(2,)](x, y, parts, arrived, x.numel(), BLOCK=128)
    return y
