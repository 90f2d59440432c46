"""Elementwise operations against torch: special values, every width, every cast."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import pytest
import torch
import triton
import triton.language as tl

from tests.triton_cpu import kernels

Function = Callable[..., torch.Tensor]
SPECIAL = [0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 1e-40, 3.5, -2.5, 0.5, 1e30, 65504.0, 2.5]
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]


def run_binary(x: torch.Tensor, y: torch.Tensor, operation: int, out: torch.dtype) -> torch.Tensor:
    result = torch.empty(x.shape, dtype=out)
    kernels.binary[(triton.cdiv(x.numel(), 64),)](x, y, result, x.numel(), B=64, OP=operation)
    return result


def same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def special_pairs(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = torch.tensor(list(itertools.product(SPECIAL, SPECIAL))).to(dtype)
    return pairs[:, 0].contiguous(), pairs[:, 1].contiguous()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    ("operation", "function"),
    [(0, torch.add), (2, torch.mul), (3, torch.fmax), (5, torch.maximum), (7, torch.div), (9, torch.fmod)],
    ids=["add", "mul", "max", "max_nan", "div", "remainder"],
)
def test_float_arithmetic_on_special_values(dtype: torch.dtype, operation: int, function: Function) -> None:
    x, y = special_pairs(dtype)
    # torch's own float32 remainder by a denormal is NaN
    wide = torch.float64 if dtype is torch.float64 or function is torch.fmod else torch.float32
    expected = function(x.to(wide), y.to(wide)).to(dtype)
    actual = run_binary(x, y, operation, dtype)
    same(actual, expected)
    if operation in (0, 2, 7):
        zeros = expected == 0
        assert torch.equal(torch.signbit(actual[zeros]), torch.signbit(expected[zeros]))


def test_propagating_extrema_order_the_zeros() -> None:
    x, y = torch.tensor([0.0, -0.0] * 32), torch.tensor([-0.0, 0.0] * 32)
    assert not torch.signbit(run_binary(x, y, 5, torch.float32)).any()
    assert torch.signbit(run_binary(x, y, 6, torch.float32)).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("operation", "function"), [(15, torch.lt), (16, torch.le), (17, torch.eq), (18, torch.ne), (20, torch.ge)]
)
def test_comparisons_with_nan(dtype: torch.dtype, operation: int, function: Function) -> None:
    x, y = special_pairs(dtype)
    same(run_binary(x, y, operation, torch.bool), function(x, y))


def truncated(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.div(a, b, rounding_mode="trunc")


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_arithmetic(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    x = torch.randint(info.min, info.max, (200,), dtype=dtype)
    y = torch.randint(info.min, info.max, (200,), dtype=dtype)
    y[y == 0] = 3
    y[:40] = torch.randint(1, 9, (40,)).to(dtype)
    x[:3] = info.min
    functions: dict[int, Function] = {
        0: torch.add,
        2: torch.mul,
        3: torch.maximum,
        8: truncated,
        9: torch.fmod,
        12: torch.bitwise_xor,
        14: lambda a, b: a >> (b & 7),
    }
    for operation, function in functions.items():
        same(run_binary(x, y, operation, dtype), function(x, y))
    same(run_binary(x, y, 15, torch.bool), x < y)


def test_integer_division_by_zero_is_a_value_not_a_signal() -> None:
    x = torch.tensor([5, -5, -(2**31), 0] * 16, dtype=torch.int32)
    for divisor in (0, -1):
        y = torch.full_like(x, divisor)
        run_binary(x, y, 8, torch.int32)
        assert run_binary(x, y, 9, torch.int32).shape == x.shape


@triton.jit
def shift(x, y, out, LEFT: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a << b if LEFT else a >> b)


SHIFTED = [*INTEGERS, torch.uint16, torch.uint32, torch.uint64]


@pytest.mark.parametrize("dtype", SHIFTED, ids=str)
def test_shifts_by_the_width_or_more_leave_the_sign(dtype: torch.dtype) -> None:
    bits, info = 8 * dtype.itemsize, torch.iinfo(dtype)
    values = [0, 1, 5, info.max, info.min, info.max // 3]
    pairs = list(itertools.product(values, [0, 1, bits - 1, bits, bits + 1, 2 * bits - 1]))
    pairs += pairs[: 64 - len(pairs)]
    x, y = (torch.tensor(column, dtype=dtype) for column in zip(*pairs, strict=True))
    for left, block in itertools.product((True, False), (64, 1)):
        out = torch.empty_like(x)
        shift[(64 // block,)](x, y, out, left, block)
        exact = [(a << b if left else a >> b) for a, b in pairs]
        assert [value % 2**bits for value in out.tolist()] == [value % 2**bits for value in exact]


@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS, torch.bool], ids=str)
def test_casts(source: torch.dtype) -> None:
    for target in [*FLOATS, torch.int8, torch.int32, torch.int64]:
        if source.is_floating_point:
            x = (torch.randn(128) * 20).to(source)
            if target.is_floating_point:
                x[: len(SPECIAL)] = torch.tensor(SPECIAL).to(source)
                x[20:60] = torch.logspace(-9, -1, 40).to(source)
                x[60:90] = torch.logspace(3, 6, 30).to(source)
        elif source is torch.bool:
            x = torch.rand(128) > 0.5
        else:
            x = torch.randint(0 if source is torch.uint8 else -100, 100, (128,)).to(source)
        out = torch.empty(128, dtype=target)
        kernels.cast[(2,)](x, out, 128, B=64)
        same(out, x.to(target))


UNARY: list[Function] = [
    torch.exp,
    torch.log,
    torch.sqrt,
    torch.abs,
    torch.neg,
    torch.sigmoid,
    torch.floor,
    torch.ceil,
    torch.exp2,
    torch.log2,
    torch.sin,
    torch.erf,
    torch.rsqrt,
]


@pytest.mark.parametrize("operation", range(len(UNARY)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_functions_on_ordinary_and_special_values(operation: int, dtype: torch.dtype) -> None:
    x = torch.randn(80, dtype=dtype) * 3
    x[: len(SPECIAL)] = torch.tensor(SPECIAL, dtype=dtype)
    out = torch.empty_like(x)
    kernels.unary[(2,)](x, out, 80, B=64, OP=operation)
    rtol = 2e-6 if dtype is torch.float32 else 1e-12
    torch.testing.assert_close(out, UNARY[operation](x), rtol=rtol, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_16_bit_floats_round_after_every_operation(dtype: torch.dtype) -> None:
    x = torch.randn(1000).to(dtype)
    out = torch.empty_like(x)
    kernels.unary[(16,)](x, out, 1000, B=64, OP=14)
    product = (x * torch.tensor(1.1, dtype=dtype)).to(dtype)
    same(out, product + torch.tensor(0.3, dtype=dtype))


def test_int32_offsets_wrap_and_int64_offsets_do_not() -> None:
    out = torch.empty(64, dtype=torch.int64)
    kernels.wrapping_offset[(1,)](out, 2**30 + 2**28, B=32)
    exact = torch.arange(32, dtype=torch.int64) * (2**30 + 2**28)
    same(out[:32], exact.to(torch.int32).to(torch.int64))
    same(out[32:], exact)


@triton.jit
def fused(x, y, z, out, N: tl.constexpr):
    o = tl.arange(0, N)
    tl.store(out + o, tl.fma(tl.load(x + o), tl.load(y + o), tl.load(z + o)))


def rounded(value: Fraction, bits: int) -> Fraction:
    """The nearest number of so many significant bits, ties to even."""
    unit = Fraction(2) ** (math.frexp(float(value))[1] - bits)
    return round(value / unit) * unit


@pytest.mark.parametrize(("kind", "bits", "tiny"), [(torch.float16, 11, 2.0**-24), (torch.bfloat16, 8, 2.0**-100)])
def test_fma_of_16_bit_floats_rounds_once(kind: torch.dtype, bits: int, tiny: float) -> None:
    x, y, z = (torch.randn(256, generator=torch.Generator().manual_seed(n)).to(kind) for n in range(3))
    x[:4], y[:4] = 1.5, 1 + 2.0 ** (1 - bits)  # a product between two numbers
    z[:4] = torch.tensor([tiny, -tiny, 0, 1])
    found = torch.empty_like(x)
    fused[(1,)](x, y, z, found, N=256)
    exact = [
        Fraction(a) * Fraction(b) + Fraction(c) for a, b, c in zip(*map(torch.Tensor.tolist, (x, y, z)), strict=True)
    ]
    assert list(map(Fraction, found.tolist())) == [rounded(value, bits) for value in exact]
    x[:3], y[:3], z[:3] = torch.tensor([math.inf, math.inf, 0.0]), 1, torch.tensor([1, -math.inf, -1.0])
    fused[(1,)](x, y, z, found, N=256)
    assert found[0] == math.inf and found[1].isnan() and found[2] == -1
