"""Arithmetic with an end: offsets that leave 32 bits, divisions by zero, what a kernel asserts, random numbers."""

import torch
import triton
import triton.language as tl

from kernelsmith.faults import FaultKind
from tests.cases.checked.case import Case, randint, randn


@triton.jit
def far_rows_kernel(x, y, stride, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    start = tl.mul(row * 4, stride, sanitize_overflow=False)  # fault: offset_wraps
    inside = (at < n) & (row != 1)
    value = tl.load(x + start + at, mask=inside, other=0.0)  # fault: offset_wraps
    tl.store(y + row * n + at, value, mask=at < n)


def offset_wraps(x):
    """Row 2 is 2**33 elements away; in 32 bits that is row 0. Row 1, at 2**32, is masked off."""
    y = torch.empty(3, x.numel())
    far_rows_kernel[(3,)](x, y, 2**30, x.numel(), BLOCK=16)
    return y


@triton.jit
def masked_rows_kernel(x, y, stride, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    start = tl.mul(row, stride, sanitize_overflow=False)
    inside = (at < n) & (row == 0)
    tl.store(y + row * n + at, tl.load(x + start + at, mask=inside, other=0.0), mask=at < n)


def wrapped_where_masked_off(x):
    y = torch.empty(5, x.numel())
    masked_rows_kernel[(5,)](x, y, 2**30, x.numel(), BLOCK=16)
    return y


@triton.jit
def wide_rows_kernel(x, y, stride, n, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    start = row.to(tl.int64) * stride
    inside = (at < n) & (start < n)
    tl.store(y + row * n + at, tl.load(x + start + at, mask=inside, other=0.0), mask=at < n)


def offset_in_64_bits(x):
    y = torch.empty(5, x.numel())
    wide_rows_kernel[(5,)](x, y, 2**30, x.numel(), BLOCK=16)
    return y


@triton.jit
def hashed_kernel(x, table, y, n, BLOCK: tl.constexpr, SLOTS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(x + at, mask=at < n, other=0)
    mixed = tl.mul(key ^ 0x45D9F3B, 0x119DE1F3, sanitize_overflow=False)
    tl.store(y + at, tl.load(table + (mixed & (SLOTS - 1)), mask=at < n), mask=at < n)


def hashed_index(x, table):
    """Multiplication modulo 2**32 is what is meant; the mask keeps the slot in range."""
    y = torch.empty(x.shape)
    hashed_kernel[(triton.cdiv(x.numel(), 32),)](x, table, y, x.numel(), BLOCK=32, SLOTS=16)
    return y


@triton.jit
def share_kernel(x, y, parts, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    each = n // parts  # fault: divided_by_no_parts
    tl.store(y + at, tl.load(x + at, mask=at < n, other=0.0) * each, mask=at < n)


def divided_by_no_parts(x, parts):
    y = torch.empty_like(x)
    share_kernel[(1,)](x, y, parts, x.numel(), BLOCK=64)
    return y


def divided_by_parts(x, parts):
    return divided_by_no_parts(x, parts)


@triton.jit
def quotient_kernel(a, b, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    above, below = tl.load(a + at, mask=at < n, other=0), tl.load(b + at, mask=at < n, other=0)
    tl.store(y + at, above // below, mask=at < n)  # fault: zero_divisors


def zero_divisors(a, b):
    y = torch.empty_like(a)
    quotient_kernel[(1,)](a, b, y, a.numel(), BLOCK=64)
    return y


def divisors(a, b):
    """The masked-off lanes divide by zero, and nobody asks for what they get."""
    return zero_divisors(a, b)


@triton.jit
def quotient_or_zero_kernel(a, b, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    above, below = tl.load(a + at, mask=at < n, other=0), tl.load(b + at, mask=at < n, other=0)
    tl.store(y + at, tl.where(below == 0, 0, above // below), mask=at < n)


def zero_divisors_replaced(a, b):
    y = torch.empty_like(a)
    quotient_or_zero_kernel[(1,)](a, b, y, a.numel(), BLOCK=64)
    return y


@triton.jit(debug=True)
def positive_kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=1.0)
    tl.device_assert(value > 0, "only positive values have a root")  # fault: asserted
    tl.store(y + at, tl.sqrt(value), mask=at < n)


def asserted(x):
    y = torch.empty_like(x)
    positive_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y


def assertion_holds(x):
    return asserted(x)


@triton.jit
def dropout_kernel(x, y, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, tl.where(tl.rand(seed, at) >= p, value / (1 - p), 0.0), mask=at < n)


def seeded_dropout(x):
    y = torch.empty_like(x)
    dropout_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), 0.3, 12345, BLOCK=32)
    return y


@triton.jit
def stochastic_kernel(x, y, n, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    bits = tl.load(x + at, mask=at < n, other=0.0).to(tl.int32, bitcast=True)
    noise = tl.randint(seed, at).to(tl.int32) & 0xFFFF
    rounded = tl.add(bits, noise, sanitize_overflow=False) >> 16
    tl.store(y + at, rounded.to(tl.int16).to(tl.bfloat16, bitcast=True), mask=at < n)


def stochastic_rounding(x):
    y = torch.empty(x.shape, dtype=torch.bfloat16)
    stochastic_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), 7, BLOCK=32)
    return y


@triton.jit
def matmul_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    a_tile, b_tile = a + rows[:, None] * k + inner[None, :], b + inner[:, None] * n + columns[None, :]
    for start in range(0, k, BK):
        left = tl.load(a_tile, mask=(rows[:, None] < m) & (inner[None, :] < k - start), other=0.0)
        right = tl.load(b_tile, mask=(inner[:, None] < k - start) & (columns[None, :] < n), other=0.0)
        total = tl.dot(left, right, total)
        a_tile += BK
        b_tile += BK * n
    tl.store(c + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))


def matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n)
    matmul_kernel[(triton.cdiv(m, 16), triton.cdiv(n, 16))](a, b, c, m, n, k, BM=16, BN=16, BK=16)
    return c


def ints(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


CASES = (
    Case(offset_wraps, lambda: (randn(13),), FaultKind.OFFSET_WRAP),
    Case(wrapped_where_masked_off, lambda: (randn(13),)),
    Case(offset_in_64_bits, lambda: (randn(13),)),
    Case(hashed_index, lambda: (randint(1000, 50), randn(16))),
    Case(divided_by_no_parts, lambda: (randn(50), 0), FaultKind.DIVISION_BY_ZERO),
    Case(divided_by_parts, lambda: (randn(50), 3)),
    Case(zero_divisors, lambda: (ints(5, 6, 7), ints(1, 0, 2)), FaultKind.POISON),
    Case(divisors, lambda: (ints(5, 6, 7), ints(1, 3, 2))),
    Case(zero_divisors_replaced, lambda: (ints(5, 6, 7), ints(1, 0, 2))),
    Case(asserted, lambda: (randn(50),), FaultKind.ASSERTION),
    Case(assertion_holds, lambda: (randn(50).abs() + 1,)),
    Case(seeded_dropout, lambda: (randn(100),)),
    Case(stochastic_rounding, lambda: (randn(100),)),
    Case(matmul, lambda: (randn(20, 37), randn(37, 19))),
)
