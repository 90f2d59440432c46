"""A store whose memory partly overlaps what its values are loaded from: all loads come first."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu.isa import BASELINE, Isa, host_isa
from kernelsmith.triton_cpu.run.launch import compile_ttir


@triton.jit
def add(x, y, out, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + o, tl.load(x + o, mask=o < n, other=5.0) + tl.load(y + o, mask=o < n), mask=o < n)


@triton.jit
def tile(x, out, stride, step, M: tl.constexpr, N: tl.constexpr):
    o = tl.arange(0, M)[:, None] * stride + tl.arange(0, N)[None, :] * step
    tl.store(out + o, tl.load(x + o) * 2)


@triton.jit
def scattered(x, out, where, N: tl.constexpr):
    o = tl.load(where + tl.arange(0, N))
    tl.store(out + o, tl.load(x + o) * 2)


@pytest.mark.parametrize("shift", [-256, -16, -3, -1, 0, 1, 3, 16, 100, 255, 256])
@pytest.mark.parametrize("n", [256, 200])
def test_one_dimension(shift: int, n: int) -> None:
    memory = torch.arange(1024.0)
    x, out, y = memory[300 : 300 + n], memory[300 + shift : 300 + shift + n], torch.arange(float(n))
    expected = memory.clone()
    expected[300 + shift : 300 + shift + n] = x + y
    add[(1,)](x, y, out, n, B=256)
    assert torch.equal(memory, expected)
    memory = torch.arange(1024.0)
    expected = memory.clone()
    x, out = memory[300 : 300 + n], memory[300 + shift : 300 + shift + n]
    expected[300 + shift : 300 + shift + n] = 2 * x
    add[(1,)](x, x, out, n, B=256)
    assert torch.equal(memory, expected)


@pytest.mark.parametrize("level", [host_isa(), BASELINE], ids=lambda level: level.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
@pytest.mark.parametrize(("stride", "step"), [(32, 1), (64, 1), (-32, 1), (1, 8), (80, 2), (64, -1)], ids=str)
@pytest.mark.parametrize("columns", [32, 2])
def test_two_dimensions(stride: int, step: int, columns: int, dtype: torch.dtype, level: Isa) -> None:
    start = torch.arange(3500) % 60
    for shift in (0, 1, -1, stride, -stride, 3 * stride + step, -7 * stride - 3, 900):
        memory = start.to(dtype)
        x, out = memory[1200:], memory[1200 + shift :]
        offsets = torch.arange(8)[:, None] * stride + torch.arange(columns)[None, :] * step
        expected = memory.clone()
        expected[1200 + shift + offsets] = 2 * memory[1200 + offsets]
        compiled = tile.warmup(x, out, stride, step, M=8, N=columns, grid=(1,))
        slots = [x.data_ptr(), out.data_ptr(), *(value for value in (stride, step) if value != 1)]
        compile_ttir(compiled.asm["ttir"], isa=level).launch((1, 1, 1), slots)
        assert torch.equal(memory, expected)


@pytest.mark.parametrize("shift", [0, 1, -5])
def test_scattered_offsets(shift: int) -> None:
    memory, where = torch.arange(128.0), torch.arange(64, dtype=torch.int32) * 7 % 64
    expected = memory.clone()
    expected[32 + shift : 96 + shift] = 2 * memory[32:96]
    scattered[(1,)](memory[32:], memory[32 + shift :], where, N=64)
    assert torch.equal(memory, expected)


def test_checked_builds_load_first_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_CPU_CHECKED", "1")
    memory, y = torch.arange(512.0), torch.zeros(256)
    add.device_caches.clear()
    add[(1,)](memory[:256], y, memory[1:257], 256, B=256)
    add.device_caches.clear()
    assert torch.equal(memory[1:257], torch.arange(256.0))
