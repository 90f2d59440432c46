"""Stores that pass the caches by: when they may, and that what they write is right."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu.emit.codegen import generate
from kernelsmith.triton_cpu.isa import AVX2, AVX512, BASELINE, Isa, host_isa
from kernelsmith.triton_cpu.run.launch import compile_ttir

LARGE = (13 << 20) + 64


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr, KIND: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    value += value
    if KIND == "reads back":
        tl.store(out + at, value, mask=at < n)
        value = tl.load(out + at, mask=at < n)
    if KIND == "reduces first":
        value -= tl.sum(value, axis=0)
    if KIND == "counts":
        tl.atomic_add(x + n, 1)
    tl.store(out + at, value, mask=at < n)


def ttir(kind: str) -> str:
    x = torch.zeros(256, dtype=torch.int32)
    return str(double[(1,)](x, torch.zeros_like(x), 0, BLOCK=128, KIND=kind).asm["ttir"])


@pytest.mark.parametrize("kind", ["plain", "reads back", "reduces first", "counts"])
def test_only_plain_elementwise_kernels_stream(kind: str) -> None:
    source = generate(ttir(kind), isa=host_isa()).source
    assert ("ks_drain();\n}" in source) is (kind == "plain")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8, torch.float64], ids=str)
def test_a_large_output_is_right_to_its_last_element(dtype: torch.dtype) -> None:
    count = LARGE // dtype.itemsize - 3
    x = torch.randint(-60, 60, (count,), dtype=torch.int8).to(dtype)
    out = torch.full((count + 64,), 5).to(dtype)
    double[(triton.cdiv(count, 4096),)](x, out, count, BLOCK=4096, KIND="plain")
    assert torch.equal(out[:count], x + x)
    assert (out[count:] == 5).all()


@pytest.mark.parametrize("isa", [BASELINE, AVX2, AVX512], ids=lambda isa: isa.name)
def test_every_level_can_stream(isa: Isa) -> None:
    if isa.lanes > host_isa().lanes:
        pytest.skip("this machine has no such vectors")
    kernel = compile_ttir(ttir("plain"), isa=isa)
    count = LARGE // 4
    x, out = torch.arange(count + 4, dtype=torch.int32), torch.zeros(count + 4, dtype=torch.int32)
    for shift in (0, 1):  # whole cache lines, and none
        kernel.launch((triton.cdiv(count, 128), 1, 1), [x.data_ptr(), out.data_ptr() + 4 * shift, count])
        assert torch.equal(out[shift : count + shift], 2 * x[:count])
