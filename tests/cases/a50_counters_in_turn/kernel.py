"""Right: calls take counters in turn, each of which is back at zero before it is due again."""

import itertools

import torch
import triton
import triton.language as tl

_counters = [torch.zeros(1, dtype=torch.int32) for _ in range(300)]
_turns = itertools.cycle(_counters)


@triton.jit
def total_kernel(x, parts, count, y, n, BLOCK: tl.constexpr, MOST: tl.constexpr):
    part = tl.program_id(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + part, tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))
    arrived = tl.atomic_add(count, 1, sem="acq_rel")
    if arrived == tl.num_programs(0) - 1:
        every = tl.arange(0, MOST)
        tl.store(y, tl.sum(tl.load(parts + every, mask=every < tl.num_programs(0), other=0.0), 0))
        tl.atomic_xchg(count, 0)


def total(x):
    programs = triton.cdiv(x.numel(), 1024)
    parts = torch.zeros(programs, device=x.device)
    y = torch.zeros((), device=x.device)
    total_kernel[(programs,)](x, parts, next(_turns), y, x.numel(), BLOCK=1024, MOST=triton.next_power_of_2(programs))
    return y
