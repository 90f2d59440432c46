"""Accesses beside a tensor: past its end, before its start, and inside of its storage but not of its view."""

import torch
import triton
import triton.language as tl

from kernelsmith.faults import FaultKind
from tests.cases.checked.case import Case, randint, randn


@triton.jit
def double_unmasked_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(y + at, value * 2)  # fault: one_past_the_end


def one_past_the_end(x):
    y = torch.empty_like(x)
    double_unmasked_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def double_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


def masked_tail(x):
    y = torch.empty_like(x)
    double_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def rows_by_width_kernel(x, y, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * n + at, mask=at < n)  # fault: beside_the_view
    tl.store(y + row * n + at, value, mask=at < n)


def beside_the_view(x):
    y = torch.empty(x.shape)
    rows_by_width_kernel[(x.shape[0],)](x, y, x.shape[1], BLOCK=16)
    return y


@triton.jit
def rows_by_stride_kernel(x, y, n, stride, step, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    tl.store(y + row * n + at, tl.load(x + row * stride + at * step, mask=at < n), mask=at < n)


def rows_by_stride(x):
    y = torch.empty(x.shape)
    rows_by_stride_kernel[(x.shape[0],)](x, y, x.shape[1], x.stride(0), x.stride(1), BLOCK=16)
    return y


def rows_transposed(x):
    return rows_by_stride(x.t())


def rows_expanded(x):
    return rows_by_stride(x.expand(5, x.shape[-1]))


def rows_stepped(x):
    return rows_by_stride(x[1::2, ::3])


@triton.jit
def left_neighbour_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + at - 1, mask=at < n, other=0.0)  # fault: before_the_start
    tl.store(y + at, left, mask=at < n)


def before_the_start(x):
    y = torch.empty_like(x)
    left_neighbour_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def left_or_zero_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x + at - 1, mask=(at > 0) & (at < n), other=0.0)
    tl.store(y + at, left, mask=at < n)


def left_or_zero(x):
    y = torch.empty_like(x)
    left_or_zero_kernel[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def pick_kernel(table, index, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.load(index + at, mask=at < n, other=0)
    value = tl.load(table + row, mask=at < n)  # fault: index_from_one
    tl.store(y + at, value, mask=at < n)


def pick(table, index):
    y = torch.empty(index.shape, dtype=table.dtype)
    pick_kernel[(1,)](table, index, y, index.numel(), BLOCK=32)
    return y


def index_from_one(table, index):
    return pick(table, index)


@triton.jit
def total_beside_kernel(x, y, n, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    at = part * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + at, mask=at < n, other=0.0), 0)
    tl.store(y + part + 1, total)  # fault: scalar_past_the_end


def scalar_past_the_end(x):
    parts = triton.cdiv(x.numel(), 64)
    y = torch.zeros(parts)
    total_beside_kernel[(parts,)](x, y, x.numel(), BLOCK=64)
    return y


@triton.jit
def tiles_kernel(x, y, m, n, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [m, n], [n, 1], [BM, BN])
    target = tl.make_tensor_descriptor(y, [m, n], [n, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([row, column], source.load([row, column]) * 2)


def tiles_past_the_edge(x):
    """A descriptor's own bounds keep a tile inside."""
    (m, n), y = x.shape, torch.empty_like(x)
    tiles_kernel[(triton.cdiv(m, 8), triton.cdiv(n, 16))](x, y, m, n, BM=8, BN=16)
    return y


@triton.jit
def tiles_of_a_larger_shape_kernel(x, y, m, n, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [m, n], [n, 1], [BM, BN])
    target = tl.make_tensor_descriptor(y, [m + 1, n], [n, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    target.store([row, column], source.load([row, column]) * 2)  # fault: descriptor_of_another_shape


def descriptor_of_another_shape(x):
    (m, n), y = x.shape, torch.empty_like(x)
    tiles_of_a_larger_shape_kernel[(triton.cdiv(m, 8), triton.cdiv(n, 16))](x, y, m, n, BM=8, BN=16)
    return y


def no_elements(x):
    return masked_tail(x[:0]), masked_tail(x)


CASES = (
    Case(one_past_the_end, lambda: (randn(127),), FaultKind.OUT_OF_BOUNDS),
    Case(masked_tail, lambda: (randn(127),)),
    Case(beside_the_view, lambda: (randn(6, 20)[:, :13],), FaultKind.OUT_OF_BOUNDS),
    Case(rows_by_stride, lambda: (randn(6, 20)[:, :13],)),
    Case(rows_transposed, lambda: (randn(13, 6),)),
    Case(rows_expanded, lambda: (randn(1, 11),)),
    Case(rows_stepped, lambda: (randn(9, 20),)),
    Case(before_the_start, lambda: (randn(100),), FaultKind.OUT_OF_BOUNDS),
    Case(left_or_zero, lambda: (randn(100),)),
    Case(index_from_one, lambda: (randn(20), randint(20, 30) + 1), FaultKind.OUT_OF_BOUNDS),
    Case(pick, lambda: (randn(20), randint(20, 30))),
    Case(scalar_past_the_end, lambda: (randn(100),), FaultKind.OUT_OF_BOUNDS),
    Case(tiles_past_the_edge, lambda: (randn(13, 20),)),
    Case(descriptor_of_another_shape, lambda: (randn(13, 20),), FaultKind.OUT_OF_BOUNDS),
    Case(no_elements, lambda: (randn(40),)),
)
