"""Memory that was allocated and is read before anybody wrote to it, by the same launch or by a later step."""

import torch
import triton
import triton.language as tl

from kernelsmith.faults import FaultKind
from tests.cases.checked.case import Case, randn


@triton.jit
def load_then_store_kernel(x, work, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(work + at, mask=at < n, other=0.0)  # fault: read_before_store
    tl.store(work + at, tl.load(x + at, mask=at < n), mask=at < n)
    tl.store(y + at, before, mask=at < n)


def read_before_store(x):
    work, y = torch.empty_like(x), torch.empty_like(x)
    load_then_store_kernel[(triton.cdiv(x.numel(), 32),)](x, work, y, x.numel(), BLOCK=32)
    return y


@triton.jit
def store_then_load_kernel(x, work, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(work + at, tl.load(x + at, mask=at < n), mask=at < n)
    tl.debug_barrier()
    tl.store(y + at, tl.load(work + at, mask=at < n, other=0.0), mask=at < n)


def read_after_store(x):
    work, y = torch.empty_like(x), torch.empty_like(x)
    store_then_load_kernel[(triton.cdiv(x.numel(), 32),)](x, work, y, x.numel(), BLOCK=32)
    return y


@triton.jit
def lower_kernel(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    keep = (at <= row) & (at < n)
    tl.store(y + row * n + at, tl.load(x + row * n + at, mask=keep), mask=keep)


@triton.jit
def row_sum_kernel(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n, other=0.0)  # fault: upper_triangle
    tl.store(y + row, tl.sum(value, 0))


def upper_triangle(x):
    n = x.shape[0]
    lower, y = torch.empty_like(x), torch.empty(n)
    lower_kernel[(n,)](x, lower, n, BLOCK=16)
    row_sum_kernel[(n,)](lower, y, n, BLOCK=16)
    return y


@triton.jit
def lower_sum_kernel(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(y + row, tl.sum(tl.load(x + row * n + at, mask=at <= row, other=0.0), 0))


def lower_triangle(x):
    n = x.shape[0]
    lower, y = torch.empty_like(x), torch.empty(n)
    lower_kernel[(n,)](x, lower, n, BLOCK=16)
    lower_sum_kernel[(n,)](lower, y, n, BLOCK=16)
    return y


def returned_unwritten(x):
    y = torch.empty_like(x)
    lower_kernel[(x.shape[0],)](x, y, x.shape[0], BLOCK=16)
    return y


def lower_over_zeros(x):
    y = torch.zeros_like(x)
    lower_kernel[(x.shape[0],)](x, y, x.shape[0], BLOCK=16)
    return y


@triton.jit
def partial_kernel(x, parts, n, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + part, tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))


@triton.jit
def sum_most_kernel(parts, y, MOST: tl.constexpr):
    value = tl.load(parts + tl.arange(0, MOST))  # fault: more_parts_than_programs
    tl.store(y, tl.sum(value, 0))


def more_parts_than_programs(x):
    parts, y = torch.empty(16), torch.empty(())
    partial_kernel[(triton.cdiv(x.numel(), 32),)](x, parts, x.numel(), BLOCK=32)
    sum_most_kernel[(1,)](parts, y, MOST=16)
    return y


@triton.jit
def sum_some_kernel(parts, y, n, MOST: tl.constexpr):
    at = tl.arange(0, MOST)
    tl.store(y, tl.sum(tl.load(parts + at, mask=at < n, other=0.0), 0))


def as_many_parts_as_programs(x):
    programs = triton.cdiv(x.numel(), 32)
    parts, y = torch.empty(16), torch.empty(())
    partial_kernel[(programs,)](x, parts, x.numel(), BLOCK=32)
    sum_some_kernel[(1,)](parts, y, programs, MOST=16)
    return y


@triton.jit
def add_up_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(y, tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0))  # fault: added_to_empty


def added_to_empty(x):
    y = torch.empty(1)
    add_up_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y


def added_to_zeros(x):
    y = torch.zeros(1)
    add_up_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y


@triton.jit
def sum_copy_kernel(parts, y, MOST: tl.constexpr):
    value = tl.load(parts + tl.arange(0, MOST))  # fault: copy_of_unwritten
    tl.store(y, tl.sum(value, 0))


def copy_of_unwritten(x):
    parts, y = torch.empty(16), torch.empty(())
    partial_kernel[(triton.cdiv(x.numel(), 32),)](x, parts, x.numel(), BLOCK=32)
    sum_copy_kernel[(1,)](parts.clone(), y, MOST=16)
    return y


def copy_of_partly_written(x):
    programs = triton.cdiv(x.numel(), 32)
    parts, y = torch.empty(16), torch.empty(())
    partial_kernel[(programs,)](x, parts, x.numel(), BLOCK=32)
    sum_some_kernel[(1,)](parts.clone(), y, programs, MOST=16)
    return y


@triton.jit
def copy_rows_kernel(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(y + row * n + at, tl.load(x + row * n + at, mask=at < n), mask=at < n)


def narrow_rows(x):
    """A vector's width reaches over several rows, which are other programs' to write."""
    y, z = torch.empty_like(x), torch.empty_like(x)
    copy_rows_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=8)
    copy_rows_kernel[(x.shape[0],)](y, z, x.shape[1], BLOCK=8)
    return z


CASES = (
    Case(read_before_store, lambda: (randn(70),), FaultKind.UNWRITTEN),
    Case(read_after_store, lambda: (randn(70),)),
    Case(upper_triangle, lambda: (randn(13, 13),), FaultKind.UNWRITTEN),
    Case(lower_triangle, lambda: (randn(13, 13),)),
    Case(returned_unwritten, lambda: (randn(13, 13),), FaultKind.UNWRITTEN),
    Case(lower_over_zeros, lambda: (randn(13, 13),)),
    Case(more_parts_than_programs, lambda: (randn(300),), FaultKind.UNWRITTEN),
    Case(as_many_parts_as_programs, lambda: (randn(300),)),
    Case(added_to_empty, lambda: (randn(300),), FaultKind.UNWRITTEN),
    Case(added_to_zeros, lambda: (randn(300),)),
    Case(copy_of_unwritten, lambda: (randn(300),), FaultKind.UNWRITTEN),
    Case(copy_of_partly_written, lambda: (randn(300),)),
    Case(narrow_rows, lambda: (randn(20_000, 5),)),
)
