"""Flags, counters and locks: with the right memory semantics they order program instances, without it they do not."""

import torch
import triton
import triton.language as tl

from kernelsmith.faults import FaultKind, Schedule
from tests.cases.checked.case import Case, randn


@triton.jit
def last_arriver_kernel(x, parts, count, y, n, BLOCK: tl.constexpr, MOST: tl.constexpr, SEM: tl.constexpr):
    part, programs = tl.program_id(0), tl.num_programs(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + part, tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))  # fault: relaxed_counter
    if tl.atomic_add(count, 1, sem=SEM) == programs - 1:
        every = tl.arange(0, MOST)
        value = tl.load(parts + every, mask=every < programs, other=0.0)  # fault: relaxed_counter
        tl.store(y, tl.sum(value, 0))


def counted(x, sem):
    programs = triton.cdiv(x.numel(), 32)
    parts, count, y = torch.empty(programs), torch.zeros((), dtype=torch.int32), torch.empty(())
    last_arriver_kernel[(programs,)](x, parts, count, y, x.numel(), BLOCK=32, MOST=16, SEM=sem)
    return y


def last_arriver(x):
    return counted(x, "acq_rel")


def relaxed_counter(x):
    return counted(x, "relaxed")


@triton.jit
def chained_kernel(x, y, totals, flags, n, BLOCK: tl.constexpr, PUBLISH: tl.constexpr, AWAIT: tl.constexpr):
    part = tl.program_id(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    base = 0.0
    if part > 0:
        while tl.atomic_add(flags + part - 1, 0, sem=AWAIT) == 0:  # fault: chain_backwards
            pass
        base = tl.load(totals + part - 1)  # fault: relaxed_flag
    tl.store(totals + part, base + tl.sum(value, 0))  # fault: relaxed_flag
    tl.atomic_xchg(flags + part, 1, sem=PUBLISH)
    tl.store(y + at, base + tl.cumsum(value, 0), mask=at < n)


def chained(x, publish, wait):
    parts, y = triton.cdiv(x.numel(), 32), torch.empty_like(x)
    totals, flags = torch.empty(parts), torch.zeros(parts, dtype=torch.int32)
    chained_kernel[(parts,)](x, y, totals, flags, x.numel(), BLOCK=32, PUBLISH=publish, AWAIT=wait)
    return y


def chain_forwards(x):
    return chained(x, "release", "acquire")


def chain_backwards(x):
    return chained(x, "release", "acquire")


def relaxed_flag(x):
    return chained(x, "relaxed", "relaxed")


@triton.jit
def ticket_kernel(x, y, totals, flags, ticket, n, BLOCK: tl.constexpr):
    part = tl.atomic_add(ticket, 1)
    at = part * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    base = 0.0
    if part > 0:
        while tl.atomic_add(flags + part - 1, 0, sem="acquire") == 0:
            pass
        base = tl.load(totals + part - 1)
    tl.store(totals + part, base + tl.sum(value, 0))
    tl.atomic_xchg(flags + part, 1, sem="release")
    tl.store(y + at, base + tl.cumsum(value, 0), mask=at < n)


def chain_by_ticket(x):
    """Whoever runs first is part 0: right in any order."""
    parts, y = triton.cdiv(x.numel(), 32), torch.empty_like(x)
    totals, flags = torch.empty(parts), torch.zeros(parts, dtype=torch.int32)
    ticket = torch.zeros((), dtype=torch.int32)
    ticket_kernel[(parts,)](x, y, totals, flags, ticket, x.numel(), BLOCK=32)
    return y


@triton.jit
def locked_sum_kernel(x, y, locks, counts, n, GROUPS: tl.constexpr, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    group = row % GROUPS
    place = y + group * n + at
    while tl.atomic_cas(locks + group, 0, 1) == 1:
        pass
    if tl.load(counts + group) == 0:
        tl.atomic_xchg(counts + group, 1)
    else:
        value += tl.load(place, mask=at < n)
    tl.store(place, value, mask=at < n)
    tl.debug_barrier()
    tl.atomic_xchg(locks + group, 0)


def locked_sum(x):
    """A spin lock per group of rows; the first of a group stores, the others add."""
    rows, n = x.shape
    y = torch.empty(2, n)
    locks, counts = torch.zeros(2, dtype=torch.int32), torch.zeros(2, dtype=torch.int32)
    locked_sum_kernel[(rows,)](x, y, locks, counts, n, GROUPS=2, BLOCK=16)
    return y


@triton.jit
def forgotten_lock_kernel(x, y, lock, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    while tl.atomic_cas(lock, 0, 1) == 1:  # fault: lock_never_freed
        pass
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    tl.store(y + at, tl.load(y + at, mask=at < n) + value, mask=at < n)


def lock_never_freed(x):
    y, lock = torch.zeros(x.shape[1]), torch.zeros((), dtype=torch.int32)
    forgotten_lock_kernel[(x.shape[0],)](x, y, lock, x.shape[1], BLOCK=16)
    return y


@triton.jit
def largest_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_max(y, tl.max(tl.load(x + at, mask=at < n, other=-float("inf")), 0), sem="relaxed")


def relaxed_maximum(x):
    """Atomics alone need no order: the result is read by nobody in the launch."""
    y = torch.full((1,), -float("inf"))
    largest_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y


@triton.jit
def product_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    own = tl.sum(tl.load(x + at, mask=at < n, other=0).to(tl.int32), 0) | 1
    old = tl.atomic_add(y, 0)
    seen = tl.atomic_cas(y, old, old * own)
    while seen != old:
        old = seen
        seen = tl.atomic_cas(y, old, old * own)


def compare_and_swap_product(x):
    y = torch.ones((), dtype=torch.int32)
    product_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y


CASES = (
    Case(last_arriver, lambda: (randn(300),)),
    Case(relaxed_counter, lambda: (randn(300),), FaultKind.RACE),
    Case(chain_forwards, lambda: (randn(100),), schedules=(Schedule.PARALLEL,)),
    Case(chain_backwards, lambda: (randn(100),), FaultKind.DEADLOCK, (Schedule.REVERSED,)),
    Case(relaxed_flag, lambda: (randn(100),), FaultKind.RACE, (Schedule.PARALLEL,)),
    Case(chain_by_ticket, lambda: (randn(100),)),
    Case(locked_sum, lambda: (randn(7, 13),)),
    Case(lock_never_freed, lambda: (randn(3, 13),), FaultKind.DEADLOCK),
    Case(relaxed_maximum, lambda: (randn(100),)),
    Case(compare_and_swap_product, lambda: (randn(100),)),
)
