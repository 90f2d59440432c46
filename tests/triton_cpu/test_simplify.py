"""Sorting networks and reversals: exchanges of neighbours at every distance, against torch."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu.emit.simplify import FLIP, simplify
from kernelsmith.triton_cpu.isa import AVX2, BASELINE, Isa, host_isa
from kernelsmith.triton_cpu.read.ir import walk
from kernelsmith.triton_cpu.read.parse import parse
from kernelsmith.triton_cpu.run.launch import compile_ttir


@triton.jit
def arrange(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    value = tl.load(x + at)
    if KIND == "sort":
        value = tl.sort(value)
    elif KIND == "descending":
        value = tl.sort(value, descending=True)
    elif KIND == "flip":
        value = tl.flip(value, dim=1)
    elif KIND == "flip rows":
        value = tl.flip(value, dim=0)
    tl.store(out + at, value)


def expected(x: torch.Tensor, kind: str) -> torch.Tensor:
    if kind.startswith("flip"):
        return x.flip(0 if kind == "flip rows" else 1)
    return x.sort(-1, descending=kind == "descending").values


@pytest.mark.parametrize("kind", ["sort", "descending", "flip", "flip rows"])
@pytest.mark.parametrize("shape", [(1, 64), (4, 32), (8, 8), (2, 2)], ids=str)
def test_arrangements(shape: tuple[int, int], kind: str) -> None:
    x = torch.randn(shape)
    x[0, 0], x[-1, -1] = float("inf"), -float("inf")
    out = torch.empty_like(x)
    arrange[(1,)](x, out, *shape, KIND=kind)
    assert torch.equal(out, expected(x, kind))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_every_type_sorts(dtype: torch.dtype) -> None:
    x = torch.randint(-100, 100, (2, 32)).to(dtype)
    out = torch.empty_like(x)
    arrange[(1,)](x, out, 2, 32, KIND="sort")
    assert torch.equal(out, x.sort(-1).values)


@pytest.mark.parametrize("isa", [BASELINE, AVX2], ids=lambda isa: isa.name)
def test_narrower_vectors_sort(isa: Isa) -> None:
    if isa.lanes > host_isa().lanes:
        pytest.skip("this machine has no such vectors")
    x = torch.randn(1, 64)
    out = torch.empty_like(x)
    text = str(arrange[(1,)](x, out, 1, 64, KIND="sort").asm["ttir"])
    compile_ttir(text, isa=isa).launch((1, 1, 1), [x.data_ptr(), out.data_ptr()])
    assert torch.equal(out, x.sort(-1).values)


def test_no_sum_is_left_of_a_sort() -> None:
    x = torch.randn(1, 64)
    text = str(arrange[(1,)](x, torch.empty_like(x), 1, 64, KIND="sort").asm["ttir"])
    names = [op.name for op in walk(simplify(parse(text)).kernel.body)]
    assert names.count(FLIP) == 21  # 1 + 2 + ... + 6 steps for 2 ** 6 elements
    assert "tt.reduce" not in names
