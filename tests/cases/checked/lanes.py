"""Lanes of one access: several that store to one element, and masked-off ones whose value is used after all."""

import torch
import triton
import triton.language as tl

from kernelsmith.faults import FaultKind
from tests.cases.checked.case import Case, randint, randn


@triton.jit
def add_at_kernel(total, index, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = total + tl.load(index + at, mask=at < n, other=0)
    value = tl.load(place, mask=at < n, other=0.0) + tl.load(x + at, mask=at < n, other=0.0)
    tl.store(place, value, mask=at < n)  # fault: duplicate_indices


def duplicate_indices(index, x):
    total = torch.zeros(8)
    add_at_kernel[(1,)](total, index, x, x.numel(), BLOCK=32)
    return total


def distinct_indices(index, x):
    total = torch.zeros(32)
    add_at_kernel[(1,)](total, index, x, x.numel(), BLOCK=32)
    return total


@triton.jit
def atomic_add_at_kernel(total, index, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    place = total + tl.load(index + at, mask=at < n, other=0)
    tl.atomic_add(place, tl.load(x + at, mask=at < n, other=0.0), mask=at < n)


def duplicate_atomics(index, x):
    total = torch.zeros(8)
    atomic_add_at_kernel[(1,)](total, index, x, x.numel(), BLOCK=32)
    return total


@triton.jit
def mark_kernel(seen, index, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(seen + tl.load(index + at, mask=at < n, other=0), 1, mask=at < n)


def equal_values(index):
    """Lanes that meet store the same value, so it does not matter which of them is last."""
    seen = torch.zeros(8, dtype=torch.int32)
    mark_kernel[(1,)](seen, index, index.numel(), BLOCK=32)
    return seen


@triton.jit
def odd_lanes_kernel(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at // 2, tl.load(x + at), mask=at % 2 == 1)


def one_lane_of_two(x):
    """Lanes that would meet another are masked off."""
    y = torch.empty(x.numel() // 2)
    odd_lanes_kernel[(1,)](x, y, BLOCK=32)
    return y


@triton.jit
def sum_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)  # fault: masked_lanes_summed
    tl.store(y, tl.sum(value, 0))  # fault: masked_lanes_summed


def masked_lanes_summed(x):
    y = torch.empty(())
    sum_kernel[(1,)](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def sum_where_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y, tl.sum(tl.where(at < n, value, 0.0), 0))


def masked_lanes_replaced(x):
    y = torch.empty(())
    sum_where_kernel[(1,)](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def sum_times_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)  # fault: masked_lanes_times_zero
    tl.store(y, tl.sum(value * (at < n).to(tl.float32), 0))  # fault: masked_lanes_times_zero


def masked_lanes_times_zero(x):
    """Zero times what is there, unless a NaN is there."""
    y = torch.empty(())
    sum_times_kernel[(1,)](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def largest_kernel(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n)  # fault: masked_lanes_compared
    tl.store(y + row, tl.max(value, 0))  # fault: masked_lanes_compared


def masked_lanes_compared(x):
    y = torch.empty(x.shape[0])
    largest_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=16)
    return y


@triton.jit
def count_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)  # fault: masked_lanes_counted
    tl.store(y, tl.sum((value >= 4).to(tl.int32), 0))  # fault: masked_lanes_counted


def masked_lanes_counted(index):
    y = torch.empty((), dtype=torch.int32)
    count_kernel[(1,)](index, y, index.numel(), BLOCK=64)
    return y


@triton.jit
def branch_kernel(x, limit, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(value > limit, value, limit * value), mask=at < n)


def masked_lanes_not_stored(x):
    y = torch.empty_like(x)
    branch_kernel[(1,)](x, 0.5, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def softmax_kernel(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * n + at, power / tl.sum(power, 0), mask=at < n)


def softmax(x):
    y = torch.empty_like(x)
    softmax_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=16)
    return y


CASES = (
    Case(duplicate_indices, lambda: (randint(8, 30), randn(30)), FaultKind.CONFLICT),
    Case(distinct_indices, lambda: (torch.randperm(32).int()[:30], randn(30))),
    Case(duplicate_atomics, lambda: (randint(8, 30), randn(30))),
    Case(equal_values, lambda: (randint(8, 30),)),
    Case(one_lane_of_two, lambda: (randn(32),)),
    Case(masked_lanes_summed, lambda: (randn(50),), FaultKind.POISON),
    Case(masked_lanes_replaced, lambda: (randn(50),)),
    Case(masked_lanes_times_zero, lambda: (randn(50),), FaultKind.POISON),
    Case(masked_lanes_compared, lambda: (randn(5, 13),), FaultKind.POISON),
    Case(masked_lanes_counted, lambda: (randint(8, 50),), FaultKind.POISON),
    Case(masked_lanes_not_stored, lambda: (randn(50),)),
    Case(softmax, lambda: (randn(5, 13),)),
)
