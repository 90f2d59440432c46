"""Atomic updates of rows of neighbours: every type, no matter how rows lie in memory, with many writers."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def accumulate(x, out, columns, BLOCK: tl.constexpr, KIND: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns)
    if KIND == "max":
        tl.atomic_max(out + at, value, mask=at < columns)
    else:
        tl.atomic_add(out + at, value, mask=at < columns)


@pytest.mark.parametrize("shift", [0, 1])
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64], ids=str
)
def test_sums_lose_nothing(dtype: torch.dtype, shift: int) -> None:
    rows, columns = 60, 75
    x = torch.randint(-2, 3, (rows, columns)).to(dtype)
    memory = torch.zeros(columns + 2, dtype=dtype)
    accumulate[(rows,)](x, memory[shift:], columns, BLOCK=128, KIND="add")
    assert torch.equal(memory[shift : shift + columns], x.sum(0).to(dtype))
    assert not memory[:shift].any() and not memory[shift + columns :].any()


def test_other_updates_of_a_row() -> None:
    x = torch.randint(-1000, 1000, (40, 64), dtype=torch.int32)
    out = torch.full((64,), -(1 << 31), dtype=torch.int32)
    accumulate[(40,)](x, out, 64, BLOCK=64, KIND="max")
    assert torch.equal(out, x.amax(0))
