"""Scans along rows of whole vectors: functions of several operands, both directions, narrow and wide elements."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def recurrence(a, b, c, d):
    return a * c, c * b + d


@triton.jit
def scan(a, b, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, REVERSE: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    _, y = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 1, recurrence, reverse=REVERSE)
    tl.store(out + at, y)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrence_in_order(reverse: bool) -> None:
    a, b = torch.rand(3, 64, dtype=torch.float64), torch.randn(3, 64, dtype=torch.float64)
    y, out = torch.zeros_like(b), torch.zeros_like(b)
    state = torch.zeros(3, dtype=torch.float64)
    for column in reversed(range(64)) if reverse else range(64):
        state = a[:, column] * state + b[:, column]
        y[:, column] = state
    padded = [torch.cat([t, torch.zeros(1, 64, dtype=torch.float64)]) for t in (a, b, out)]
    scan[(1,)](*padded, 4, 64, REVERSE=reverse)
    torch.testing.assert_close(padded[2][:3], y)


@triton.jit
def running(x, out, COLUMNS: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, COLUMNS)
    value = tl.load(x + at)
    value = tl.cumsum(value, 0) if KIND == "sum" else tl.associative_scan(value, 0, later, reverse=True)
    tl.store(out + at, value)


@triton.jit
def later(a, b):
    return b


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.float16, torch.bool], ids=str)
def test_narrow_and_wide_elements(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, (64,)).to(dtype)
    kind = "last" if dtype is torch.bool else "sum"
    out = torch.zeros(64, dtype=dtype if dtype is not torch.int8 else torch.int32)
    running[(1,)](x, out, 64, KIND=kind)
    assert torch.equal(out, x if dtype is torch.bool else x.cumsum(0).to(out.dtype))
