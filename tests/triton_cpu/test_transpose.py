"""Matrices stored the other way round: through registers where the type and the shape allow."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu.emit.codegen import generate
from kernelsmith.triton_cpu.isa import host_isa


@triton.jit
def turn(x, out, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    mask = (r[:, None] < rows) & (c[None, :] < columns)
    value = tl.trans(tl.load(x + r[:, None] * columns + c[None, :], mask=mask, other=-1.0))
    tl.store(out + c[:, None] * ROWS + r[None, :], value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("block", [(32, 64), (4, 32)], ids=str)
def test_every_element_lands_in_its_place(block: tuple[int, int], dtype: torch.dtype) -> None:
    rows, columns = block[0] - 1, block[1] - 3
    x = torch.arange(rows * columns).reshape(rows, columns).to(dtype)
    out = torch.zeros(block[1], block[0], dtype=dtype)
    turn[(1,)](x, out, rows, columns, *block)
    expected = torch.full_like(out, -1)
    expected[:columns, :rows] = x.T
    assert torch.equal(out, expected)


def test_whole_vectors_are_turned_in_registers() -> None:
    x, out = torch.zeros(64, 64), torch.zeros(64, 64)
    text = str(turn[(1,)](x, out, 64, 64, 64, 64).asm["ttir"])
    assert "ks_transpose<vu32, 64, 64>(" in generate(text, isa=host_isa()).source
