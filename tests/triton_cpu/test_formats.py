"""8-bit floats and every other narrowing conversion, exhaustively, against torch and against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu.read.formats import FORMATS, encode_f8
from kernelsmith.triton_cpu.read.ir import Element

F8 = {
    Element.F8E4M3FN: torch.float8_e4m3fn,
    Element.F8E5M2: torch.float8_e5m2,
    Element.F8E4M3FNUZ: torch.float8_e4m3fnuz,
    Element.F8E5M2FNUZ: torch.float8_e5m2fnuz,
}
ALL_F16 = torch.arange(65536, dtype=torch.int32).to(torch.uint16).view(torch.float16)
ALL_BF16 = ALL_F16.view(torch.bfloat16)


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    patch = pytest.MonkeyPatch()
    patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))


@triton.jit
def convert(x, out, n, ROUNDING: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + i, mask=i < n)
    tl.store(out + i, value.to(out.dtype.element_ty, fp_downcast_rounding=ROUNDING), mask=i < n)


def converted(x: torch.Tensor, dtype: torch.dtype, rounding: str | None = None) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=dtype)
    convert[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), rounding, 1024)
    return out


def same_bits(a: torch.Tensor, b: torch.Tensor) -> None:
    assert a.dtype == b.dtype
    nan = b.float().isnan()
    assert torch.equal(a.float().isnan(), nan)
    width = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[a.element_size()]
    assert torch.equal(a.view(width)[~nan], b.view(width)[~nan])


@pytest.mark.parametrize("dtype", F8.values(), ids=str)
def test_every_8_bit_float_widens_to_its_value(dtype: torch.dtype) -> None:
    x = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
    for wide in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        same_bits(converted(x, wide), x.to(wide))


@pytest.mark.parametrize("element", F8, ids=str)
@pytest.mark.parametrize("source", [ALL_F16, ALL_BF16], ids=["f16", "bf16"])
def test_every_16_bit_float_narrows_as_torch_does_it_but_saturates(element: Element, source: torch.Tensor) -> None:
    largest = torch.finfo(F8[element]).max
    expected = source.float().clamp(-largest, largest).to(F8[element])
    same_bits(converted(source, F8[element]), expected)
    same_bits(converted(source.float(), F8[element]), expected)


@pytest.mark.parametrize("element", F8, ids=str)
def test_a_constant_is_encoded_as_the_conversion_does_it(element: Element) -> None:
    values = [0.0, -0.0, 0.3, -1.0, 1e9, -math.inf, math.nan, 2.0**-11, 1e-9, 0.0146484375, 17.5, 2.0**-17]
    codes = torch.tensor([encode_f8(value, element) for value in values], dtype=torch.uint8).view(F8[element])
    same_bits(codes, converted(torch.tensor(values), F8[element]))


def towards_zero(value: float, element: Element) -> float:
    """The nearest number of a format towards zero, by exact arithmetic."""
    form = FORMATS[element]
    if not math.isfinite(value):
        return value
    size, unit = Fraction(abs(value)), Fraction(2) ** (1 - form.bias - form.mantissa)
    step = max(unit, Fraction(2) ** (math.frexp(value)[1] - 1 - form.mantissa))
    return math.copysign(float(min(size // step * step, Fraction(form.value(form.largest)))), value)


ODD = [0.0, -0.0, math.inf, -math.inf, math.nan, 65519.9, 65520.0, 3.3e38, -1e-7, 6e-8, 1e-40, 1.0009765625, 57344.1]


@pytest.mark.parametrize(
    ("element", "dtype"),
    [(Element.F16, torch.float16), (Element.BF16, torch.bfloat16), (Element.F8E5M2, torch.float8_e5m2)],
    ids=str,
)
def test_rounding_towards_zero(element: Element, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(1)
    bits = torch.randint(-(2**31), 2**31, (2000,), generator=generator).to(torch.int32)
    x = torch.cat([torch.tensor(ODD), bits.view(torch.float32), torch.randn(500, generator=generator)])
    expected = torch.tensor([towards_zero(value, element) for value in x.tolist()], dtype=torch.float64).to(dtype)
    same_bits(converted(x, dtype, "rtz"), expected)
    same_bits(converted(x.double(), dtype, "rtz"), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_a_float64_is_rounded_once(dtype: torch.dtype) -> None:
    half = torch.finfo(dtype).eps / 2
    ties = torch.tensor([1 + half, 1 + 3 * half, 2.0**-3 * (1 + half)], dtype=torch.float64)
    nudge = torch.tensor([2.0**-40, -(2.0**-40), 0.0], dtype=torch.float64)
    x = (ties[:, None] * (1 + nudge)).flatten()
    up, down = 1 + 2 * half, 1.0
    expected = torch.tensor([up, down, down, 1 + 4 * half, up, 1 + 4 * half], dtype=torch.float64)
    expected = torch.cat([expected, expected[:3] / 8]).to(dtype)
    same_bits(converted(x, dtype), expected)
    same_bits(converted(-x, dtype), (-expected.double()).to(dtype))


@triton.jit
def choose(x, y, out, n, B: tl.constexpr):
    """Copies, constants, comparisons, bit casts and masked loads of 8-bit floats, in one go."""
    i = tl.arange(0, B)
    a = tl.load(x + i, mask=i < n, other=1.5)
    b = tl.load(y + i)
    zero = tl.zeros((B,), dtype=x.dtype.element_ty)
    bits = a.to(tl.uint8, bitcast=True)
    tl.store(out + i, tl.where(bits < 128, a, b))
    tl.store(out + B + i, (bits ^ 128).to(x.dtype.element_ty, bitcast=True))
    tl.store(out + 2 * B + i, tl.where(a > b, zero, b))
    tl.store(out + 3 * B + i, a + b)
    tl.store(out + 4 * B + tl.arange(0, B), tl.load(x + (B - 1 - i)))


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_8_bit_floats_travel_as_bits_and_compute_as_floats(dtype: torch.dtype) -> None:
    x = torch.arange(256, dtype=torch.int32).to(torch.uint8).view(dtype)
    y = x.view(torch.uint8).flip(0).contiguous().view(dtype)
    out = torch.empty(5 * 256, dtype=dtype)
    choose[(1,)](x, y, out, 250, 256)
    a = x.clone()
    a[250:] = torch.tensor(1.5).to(dtype)
    bits, other = a.view(torch.uint8), y.view(torch.uint8)
    parts = out.view(torch.uint8).view(5, 256)
    assert torch.equal(parts[0], torch.where(bits < 128, bits, other))
    assert torch.equal(parts[1], bits ^ 128)
    assert torch.equal(parts[2], torch.where(a.float() > y.float(), torch.zeros_like(other), other))
    largest = torch.finfo(dtype).max
    same_bits(parts[3].view(dtype), (a.float() + y.float()).clamp(-largest, largest).to(dtype))
    assert torch.equal(parts[4], x.view(torch.uint8).flip(0))


@triton.jit
def through_e4b15(x, bits, back, B: tl.constexpr):
    i = tl.arange(0, B)
    narrow = tl.load(x + i).to(tl.float8e4b15)
    tl.store(bits + i, narrow.to(tl.uint8, bitcast=True))
    tl.store(back + i, narrow.to(tl.float32))


@pytest.mark.parametrize("source", [torch.float16, torch.float32], ids=str)
def test_fp8e4b15_saturates_and_rounds_halves_up(source: torch.dtype) -> None:
    """The format has a bias of 15 and no NaN; its largest number that conversion gives is 1.75."""
    x = torch.tensor(
        [0.0, -0.0, 1.0, -1.0, 1.75, 5.0, -math.inf, 2.0**-17, 2.0**-18, 1.0625, 1.1875, 1.06, 2.0**-14, 0.3]
    )
    bits, back = torch.empty(16, dtype=torch.uint8), torch.empty(16)
    through_e4b15[(1,)](torch.cat([x, x[:2]]).to(source), bits, back, 16)
    expected = [0.0, -0.0, 1.0, -1.0, 1.75, 1.75, -1.75, 2.0**-17, 2.0**-17, 1.125, 1.25, 1.0, 2.0**-14, 0.3125]
    assert back[:14].tolist() == expected
    assert bits[:6].tolist() == [0, 0x80, 0x78, 0xF8, 0x7E, 0x7E]


@triton.jit
def to_integer(x, out, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + i, tl.load(x + i, mask=i < n).to(out.dtype.element_ty), mask=i < n)


@triton.jit
def reduce_f8(x, out, ordered, B: tl.constexpr):
    value = tl.load(x + tl.arange(0, B))
    tl.store(out, tl.max(value, 0))
    tl.store(out + 1, tl.sum(value, 0))
    tl.store(ordered + tl.arange(0, B), tl.sort(value))


def test_8_bit_floats_are_reduced_and_sorted_by_value() -> None:
    x = torch.tensor([1.0, -2.0, 0.0, -1.0, 3.0, -0.0, -1.0, 2.0] * 4).to(torch.float8_e4m3fn)
    out, ordered = torch.empty(2, dtype=x.dtype), torch.empty(32, dtype=x.dtype)
    reduce_f8[(1,)](x, out, ordered, 32)
    assert out.float().tolist() == [3.0, 8.0]
    assert torch.equal(ordered.float(), x.float().sort().values)


@triton.jit
def store_argument(out, value: tl.float8e5):
    tl.store(out, value)


def test_an_8_bit_float_is_passed_as_a_number() -> None:
    out = torch.empty(1, dtype=torch.float8_e5m2)
    store_argument[(1,)](out, -1.2)
    assert out.float().item() == -1.25


UNSIGNED = (torch.uint8, torch.uint16, torch.uint32, torch.uint64)


@pytest.mark.parametrize("source", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("target", [torch.int8, torch.int16, torch.int32, torch.int64, *UNSIGNED], ids=str)
def test_integers_out_of_range_are_the_nearest_there_is(source: torch.dtype, target: torch.dtype) -> None:
    values = [
        0.0,
        -0.9,
        1.99,
        -1.0,
        126.5,
        300.0,
        -7e4,
        7e4,
        3e9,
        -3e9,
        2.0**31,
        -(2.0**31),
        1e19,
        -1e19,
        1e30,
        math.inf,
    ]
    x = torch.tensor([*values, -math.inf, math.nan], dtype=source)
    out = torch.empty(x.shape, dtype=target)
    to_integer[(1,)](x, out, x.numel(), 64)
    bits = max(8 * target.itemsize, 16)  # narrower ones are the low bits of 16
    low, high = (0, 2**bits - 1) if target in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    nan = 2 ** (bits - 1) if source is torch.float64 or bits == 64 else 0
    clamped = [nan if math.isnan(v) else low if v < low else high if v > high else int(v) for v in x.tolist()]
    mask = 2 ** (8 * target.itemsize) - 1
    assert [value & mask for value in out.tolist()] == [value & mask for value in clamped]
    lone = torch.empty(1, dtype=target)
    to_integer[(1,)](x[6:], lone, 1, 1)
    assert lone.item() == out[6].item()
