"""Program instances that touch the same element with nothing to order them, and ones that only seem to."""

import torch
import triton
import triton.language as tl

from kernelsmith.faults import FaultKind
from tests.cases.checked.case import Case, randint, randn


@triton.jit
def shift_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at + 1, mask=at + 1 < n, other=0.0)  # fault: shifted_in_place
    tl.store(x + at, value, mask=at < n)  # fault: shifted_in_place


def shifted_in_place(x):
    shift_kernel[(triton.cdiv(x.numel(), 32),)](x, x.numel(), BLOCK=32)
    return x


@triton.jit
def shift_into_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at + 1, mask=at + 1 < n, other=0.0), mask=at < n)


def shifted(x):
    y = torch.empty_like(x)
    shift_into_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y


@triton.jit
def mirror_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + n - 1 - at, mask=at < n)  # fault: mirrored_in_place
    tl.store(x + at, value, mask=at < n)  # fault: mirrored_in_place


def mirrored_in_place(x):
    mirror_kernel[(triton.cdiv(x.numel(), 32),)](x, x.numel(), BLOCK=32)
    return x


@triton.jit
def relu_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + at, tl.maximum(tl.load(x + at, mask=at < n, other=0.0), 0.0), mask=at < n)


def relu_in_place(x):
    relu_kernel[(triton.cdiv(x.numel(), 32),)](x, x.numel(), BLOCK=32)
    return x


@triton.jit
def column_sum_kernel(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)
    before = tl.load(y + at, mask=at < n, other=0.0)  # fault: lost_updates
    tl.store(y + at, before + value, mask=at < n)  # fault: lost_updates


def lost_updates(x):
    y = torch.zeros(x.shape[1])
    column_sum_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=16)
    return y


@triton.jit
def column_add_kernel(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.atomic_add(y + at, tl.load(x + row * n + at, mask=at < n, other=0.0), mask=at < n)


def atomic_updates(x):
    y = torch.zeros(x.shape[1])
    column_add_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=16)
    return y


@triton.jit
def zero_and_add_kernel(x, y, n, BLOCK: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    if part == 0:
        tl.store(y + row, 0.0)  # fault: zeroed_by_one
    at = part * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y + row, tl.sum(tl.load(x + row * n + at, mask=at < n, other=0.0), 0))  # fault: zeroed_by_one


def zeroed_by_one(x):
    (m, n), y = x.shape, torch.zeros(x.shape[0])
    zero_and_add_kernel[(m, triton.cdiv(n, 32))](x, y, n, BLOCK=32)
    return y


@triton.jit
def last_row_kernel(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + row * n + at, mask=at < n), mask=at < n)  # fault: last_writer_wins


def last_writer_wins(x):
    y = torch.empty(x.shape[1])
    last_row_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=16)
    return y


@triton.jit
def width_kernel(x, y, width, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(y + row, tl.sum(tl.load(x + row * n + at, mask=at < n, other=0.0), 0))
    tl.store(width, n)


def same_value_by_all(x):
    """A race by the letter that no device can show: every program stores the same number."""
    y, width = torch.empty(x.shape[0]), torch.empty((), dtype=torch.int32)
    width_kernel[(x.shape[0],)](x, y, width, x.shape[1], BLOCK=16)
    return y, width


@triton.jit
def running_kernel(x, totals, y, n, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    own = tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    before = 0.0
    if part > 0:
        before = tl.load(totals + part - 1)  # fault: total_not_awaited
    tl.store(totals + part, before + own)  # fault: total_not_awaited
    tl.store(y + part, before)


def total_not_awaited(x):
    parts = triton.cdiv(x.numel(), 32)
    totals, y = torch.zeros(parts), torch.empty(parts)
    running_kernel[(parts,)](x, totals, y, x.numel(), BLOCK=32)
    return y


@triton.jit
def count_kernel(index, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(index + at, mask=at < n, other=0), 1, mask=at < n)


def histogram(index):
    counts = torch.zeros(8, dtype=torch.int32)
    count_kernel[(triton.cdiv(index.numel(), 32),)](index, counts, index.numel(), BLOCK=32)
    return counts


@triton.jit
def count_and_read_kernel(index, counts, y, n, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(counts + tl.load(index + at, mask=at < n, other=0), 1, mask=at < n)  # fault: counts_read_early
    bin = tl.arange(0, 8)
    now = tl.load(counts + bin)  # fault: counts_read_early
    tl.store(y + part * 8 + bin, now)


def counts_read_early(index):
    parts = triton.cdiv(index.numel(), 32)
    counts, y = torch.zeros(8, dtype=torch.int32), torch.empty(parts, 8, dtype=torch.int32)
    count_and_read_kernel[(parts,)](index, counts, y, index.numel(), BLOCK=32)
    return y


@triton.jit
def interleaved_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) + tl.num_programs(0) * tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n), mask=at < n)


def interleaved(x):
    y = torch.empty_like(x)
    interleaved_kernel[(8,)](x, y, x.numel(), BLOCK=16)
    return y


@triton.jit
def window_kernel(x, y, n, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(-WIDTH, WIDTH + 1):
        near = at + step
        total += tl.load(x + near, mask=(near >= 0) & (near < n), other=0.0)
    tl.store(y + at, total, mask=at < n)


def overlapping_reads(x):
    y = torch.empty_like(x)
    window_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32, WIDTH=2)
    return y


def one_launch_after_another(x):
    """What is a race inside of one launch is none between two."""
    return shifted(relu_in_place(shifted(x)))


@triton.jit
def persistent_kernel(x, y, m, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), m, tl.num_programs(0)):
        value = tl.load(x + row * n + at, mask=at < n, other=0.0)
        tl.store(y + row, tl.sum(value, 0))


def persistent(x):
    y = torch.empty(x.shape[0])
    persistent_kernel[(4,)](x, y, *x.shape, BLOCK=16)
    return y


CASES = (
    Case(shifted_in_place, lambda: (randn(100),), FaultKind.RACE),
    Case(shifted, lambda: (randn(100),)),
    Case(mirrored_in_place, lambda: (randn(100),), FaultKind.RACE),
    Case(relu_in_place, lambda: (randn(100),)),
    Case(lost_updates, lambda: (randn(7, 13),), FaultKind.RACE),
    Case(atomic_updates, lambda: (randn(7, 13),)),
    Case(zeroed_by_one, lambda: (randn(2, 100),), FaultKind.RACE),
    Case(last_writer_wins, lambda: (randn(7, 13),), FaultKind.RACE),
    Case(same_value_by_all, lambda: (randn(7, 13),)),
    Case(total_not_awaited, lambda: (randn(100),), FaultKind.RACE),
    Case(counts_read_early, lambda: (randint(8, 100),), FaultKind.RACE),
    Case(histogram, lambda: (randint(8, 100),)),
    Case(interleaved, lambda: (randn(100),)),
    Case(overlapping_reads, lambda: (randn(100),)),
    Case(one_launch_after_another, lambda: (randn(100),)),
    Case(persistent, lambda: (randn(11, 13),)),
)
