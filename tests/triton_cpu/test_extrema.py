"""max and min of floats: NaN is ignored, -0 is less than +0, in lanes, in scalars and in reductions, on all levels."""

from __future__ import annotations

import itertools

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu.isa import AVX2, BASELINE, Isa, host_isa
from kernelsmith.triton_cpu.run.launch import compile_ttir

NAN, INF = float("nan"), float("inf")
SPECIAL = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-40]
SIGNALLING = 0x7FA00000
LEVELS = [level for level in (host_isa(), AVX2, BASELINE) if host_isa().avx2 or not level.avx2]
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


@triton.jit
def pairs(x, y, out, B: tl.constexpr):
    o = tl.arange(0, B)
    a, b = tl.load(x + o), tl.load(y + o)
    tl.store(out + o, tl.maximum(a, b))
    tl.store(out + B + o, tl.minimum(a, b))
    for n in range(B):
        c, d = tl.load(x + n), tl.load(y + n)
        tl.store(out + 2 * B + n, tl.maximum(c, d))
        tl.store(out + 3 * B + n, tl.minimum(c, d))


@triton.jit
def rows(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    values = tl.load(x + i[:, None] * N + j[None, :])
    o = i if AXIS == 1 else j
    tl.store(out + o, tl.max(values, AXIS))
    tl.store(out + (N if AXIS == 0 else M) + o, tl.min(values, AXIS))


def launch(kernel: triton.JITFunction, tensors: list[torch.Tensor], level: Isa, **sizes: int) -> None:
    compiled = kernel.warmup(*tensors, grid=(1,), **sizes)
    compile_ttir(compiled.asm["ttir"], isa=level).launch((1, 1, 1), [tensor.data_ptr() for tensor in tensors])


def largest(values: list[float]) -> float:
    """IEEE 754-2019's maximumNumber."""
    numbers = [value for value in values if value == value]
    top = max(numbers, default=NAN)
    zeros = [value for value in numbers if value == 0]
    return 0.0 if top == 0 and any(str(value) == "0.0" for value in zeros) else top if top != 0 else -0.0


def smallest(values: list[float]) -> float:
    return -largest([-value for value in values])


def same(actual: torch.Tensor, expected: list[float]) -> None:
    wanted = torch.tensor(expected, dtype=torch.float64).to(actual.dtype)
    torch.testing.assert_close(actual, wanted, rtol=0, atol=0, equal_nan=True)
    zero = wanted == 0
    assert torch.equal(torch.signbit(actual[zero]), torch.signbit(wanted[zero]))


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pairs(dtype: torch.dtype, level: Isa) -> None:
    x, y = torch.tensor(list(itertools.product(SPECIAL, SPECIAL))).to(dtype).T.contiguous()
    out = torch.empty(4, x.numel(), dtype=dtype)
    launch(pairs, [x, y, out], level, B=x.numel())
    both = list(zip(x.tolist(), y.tolist(), strict=True))
    for row, function in zip(out, (largest, smallest) * 2, strict=True):
        same(row, [function([*pair]) for pair in both])


def test_signalling_nan_is_ignored_too() -> None:
    x = torch.full((64,), SIGNALLING, dtype=torch.int32).view(torch.float32)
    y, out = torch.arange(64.0), torch.empty(4, 64)
    for first, second in ((x, y), (y, x)):
        pairs[(1,)](first, second, out, B=64)
        assert torch.equal(out, y.expand(4, 64))


@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.name)
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(axis: int, level: Isa) -> None:
    x = torch.randn(16, 64).abs()
    x[0], x[1], x[2], x[3] = 0.0, -0.0, NAN, -INF
    x[4], x[4, 37] = -0.0, 0.0
    x[5], x[5, 37] = 0.0, -0.0
    x[6], x[6, 37] = NAN, -0.0
    x[7], x[7, 5] = -1.0, -0.0
    x[8], x[9] = -INF, INF
    x[8, 3], x[9, 3] = NAN, NAN
    values = x if axis == 1 else x.T.contiguous()
    out = torch.empty(2, 16)
    launch(rows, [values, out], level, M=values.shape[0], N=values.shape[1], AXIS=axis)
    same(out[0], [largest(row) for row in x.tolist()])
    same(out[1], [smallest(row) for row in x.tolist()])
