"""libdevice symbols against exact arithmetic: integers, bits, conversions, and rounding in a given direction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from kernelsmith.triton_cpu import isa
from kernelsmith.triton_cpu.emit.libdevice import lookup
from kernelsmith.triton_cpu.run import launch

Array = npt.NDArray[Any]
_KINDS = {np.dtype(kind): name for kind, name in ((np.int32, "i32"), (np.int64, "i64"), (np.float32, "f32"))}
_KINDS |= {np.dtype(np.float64): "f64", np.dtype(np.uint32): "i32", np.dtype(np.uint64): "i64"}


def call(symbols: Sequence[str], inputs: Sequence[Array], result: npt.DTypeLike) -> list[Array]:
    """What each symbol makes of the same inputs: one kernel for all, vectors and (by a second pass) single scalars."""
    size = len(inputs[0])
    kinds = [*(_KINDS[array.dtype] for array in inputs), _KINDS[np.dtype(result)]]
    of, at = f"tensor<{size}x{{}}>", f"tensor<{size}x!tt.ptr<{{}}>>"
    lines = [f"%r = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>"]
    for i, kind in enumerate(kinds):
        lines.append(f"%s{i} = tt.splat %p{i} : !tt.ptr<{kind}> -> {at.format(kind)}")
        lines.append(f"%q{i} = tt.addptr %s{i}, %r : {at.format(kind)}, tensor<{size}xi32>")
        if i < len(inputs):
            lines.append(f"%v{i} = tt.load %q{i} : {at.format(kind)}")
            lines.append(f"%x{i} = tt.load %p{i} : !tt.ptr<{kind}>")
    last, kind = len(inputs), kinds[-1]
    for n, symbol in enumerate(symbols):
        for form, name, target in ((of, "v", n * (size + 1)), ("{}", "x", n * (size + 1) + size)):
            types = ", ".join(form.format(kind) for kind in kinds[:-1])
            names = ", ".join(f"%{name}{i}" for i in range(last))
            attributes = f'{{libname = "", libpath = "", pure = true, symbol = "__nv_{symbol}"}}'
            pointer = "%q" if name == "v" else "%p"
            pointers = at.format(kind) if name == "v" else f"!tt.ptr<{kind}>"
            offset = f"%{name}o{n}"
            lines.append(f"{offset}c = arith.constant {target} : i32")
            if name == "v":
                lines.append(f"{offset} = tt.splat {offset}c : i32 -> tensor<{size}xi32>")
                offsets = f"tensor<{size}xi32>"
            else:
                offset, offsets = f"{offset}c", "i32"
            lines.append(f"%{name}a{n} = tt.addptr {pointer}{last}, {offset} : {pointers}, {offsets}")
            call_types = f"({types}) -> {form.format(kind)}"
            lines.append(f"%{name}r{n} = tt.extern_elementwise {names} {attributes} : {call_types}")
            lines.append(f"tt.store %{name}a{n}, %{name}r{n} : {pointers}")
    parameters = ", ".join(f"%p{i}: !tt.ptr<{kind}>" for i, kind in enumerate(kinds))
    text = "\n".join(["module {", f"tt.func public @k({parameters}) {{", *lines, "tt.return", "}", "}"])
    out = np.zeros((len(symbols), size + 1), dtype=result)
    launch.compile_ttir(text).launch((1, 1, 1), [array.ctypes.data for array in [*inputs, out]])
    for row in out:
        np.testing.assert_array_equal(row[0], row[size])  # a scalar is the same as a lane
    return list(out[:, :size])


def rounded(exact: Fraction, mode: str, kind: type[np.floating[Any]]) -> np.floating[Any]:
    """The number of this kind nearest to `exact` in a direction."""
    guess = kind(float(exact))
    if mode == "rz":
        mode = "rd" if exact > 0 else "ru"
    while mode in ("rd", "rn") and Fraction(float(guess)) > exact:
        guess = np.nextafter(guess, kind(-np.inf))
    while mode == "ru" and Fraction(float(guess)) < exact:
        guess = np.nextafter(guess, kind(np.inf))
    if mode == "rd":
        above = np.nextafter(guess, kind(np.inf))
        return above if Fraction(float(above)) <= exact else guess
    if mode == "ru":
        below = np.nextafter(guess, kind(-np.inf))
        return below if Fraction(float(below)) >= exact else guess
    above = np.nextafter(guess, kind(np.inf))
    gaps = exact - Fraction(float(guess)), Fraction(float(above)) - exact
    return guess if gaps[0] < gaps[1] or (gaps[0] == gaps[1] and not guess.view(f"u{guess.nbytes}") & 1) else above


def numbers(kind: type[np.floating[Any]], seed: int) -> Array:
    generator = np.random.default_rng(seed)
    tiny = np.finfo(kind).smallest_subnormal
    values = generator.standard_normal(64) * 2.0 ** generator.integers(-20, 20, 64)
    values[:4] = [1.0, -1.0, 3.0, 0.1]
    found = values.astype(kind)
    found[4:6] = [tiny * 5, -tiny * 7]
    return found


_ARITHMETIC: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "rcp": lambda x, _: 1 / x,
}
_MODES = ("rn", "rd", "ru", "rz")


@pytest.mark.parametrize(("kind", "letter"), [(np.float32, "f"), (np.float64, "d")], ids=["f32", "f64"])
def test_arithmetic_in_every_direction(kind: type[np.floating[Any]], letter: str) -> None:
    x, y, z = (numbers(kind, seed) for seed in range(3))
    y[:6], z[:6] = 7.0, -0.3
    exact = [[Fraction(float(value)) for value in values] for values in (x, y, z)]
    for name, function in _ARITHMETIC.items():
        inputs = [x] if name == "rcp" else [x, y]
        skip = 6 if name == "rcp" else 0  # the reciprocals of denormal numbers are infinite
        for mode, found in zip(_MODES, call([f"{letter}{name}_{m}" for m in _MODES], inputs, kind), strict=True):
            pairs = list(zip(exact[0], exact[1], strict=True))[skip:]
            wanted = [rounded(function(a, b), mode, kind) for a, b in pairs]
            np.testing.assert_array_equal(found[skip:], np.array(wanted), err_msg=f"{name}_{mode}")
    suffix = "f" if letter == "f" else ""
    for mode, found in zip(_MODES, call([f"fma{suffix}_{m}" for m in _MODES], [x, y, z], kind), strict=True):
        wanted = [rounded(a * b + c, mode, kind) for a, b, c in zip(*exact, strict=True)]
        np.testing.assert_array_equal(found, np.array(wanted), err_msg=f"fma_{mode}")
    positive = np.abs(x)
    down, up = call([f"{letter}sqrt_rd", f"{letter}sqrt_ru"], [positive], kind)
    for value, low, high in zip(positive, down, up, strict=True):
        assert Fraction(float(low)) ** 2 <= Fraction(float(value)) <= Fraction(float(high)) ** 2
        assert high == low or high == np.nextafter(low, kind(np.inf))
    big = np.full(16, np.finfo(kind).max)
    towards_zero, upwards = call([f"{letter}add_rz", f"{letter}add_ru"], [big, big], kind)
    assert (towards_zero == np.finfo(kind).max).all()
    assert np.isinf(upwards).all()


@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize("source", [np.float32, np.float64])
def test_floats_to_integers(source: type[np.floating[Any]], kind: type[np.integer[Any]]) -> None:
    limits = np.iinfo(kind)
    edge = float(limits.max)
    listed = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -1.5, -2.5, 1e30, -1e30, np.inf, -np.inf, np.nan, 7.999, edge, -edge]
    x = np.array(listed, dtype=source)
    names = {np.int32: "int", np.uint32: "uint", np.int64: "ll", np.uint64: "ull"}
    prefix = f"{'float' if source is np.float32 else 'double'}2{names[kind]}_"
    steps: dict[str, Callable[[float], int]] = {"rn": round, "rd": math.floor, "ru": math.ceil, "rz": math.trunc}
    invalid = 0 if source is np.float32 and limits.bits == 32 else 1 << (limits.bits - 1)
    for mode, found in zip(_MODES, call([prefix + mode for mode in _MODES], [x], kind), strict=True):
        for value, got in zip(x.tolist(), found.tolist(), strict=True):
            if math.isnan(value):
                assert got % (1 << limits.bits) == invalid
            elif math.isinf(value):
                assert got == (limits.max if value > 0 else limits.min)
            else:
                assert got == min(max(steps[mode](value), limits.min), limits.max)


@pytest.mark.parametrize("target", [np.float32, np.float64])
@pytest.mark.parametrize("kind", [np.int32, np.uint32, np.int64, np.uint64])
def test_integers_to_floats(kind: type[np.integer[Any]], target: type[np.floating[Any]]) -> None:
    limits = np.iinfo(kind)
    values = [0, 1, 16777217, 16777219, 33554435, limits.max, limits.max - 1, limits.min, limits.min // 2 + 1]
    values += [(1 << 53) % limits.max + 1, (1 << 60) % limits.max - 1, 123456789, 987654321, 5, 6, 7]
    x = np.array(values, dtype=kind)
    names = {np.int32: "int", np.uint32: "uint", np.int64: "ll", np.uint64: "ull"}
    prefix = f"{names[kind]}2{'float' if target is np.float32 else 'double'}_"
    for mode, found in zip(_MODES, call([prefix + mode for mode in _MODES], [x], target), strict=True):
        assert found.tolist() == [rounded(Fraction(value), mode, target) for value in x.tolist()]


def test_doubles_to_floats() -> None:
    x = numbers(np.float64, 5)
    x[4:6] = [1e-42 / 3, -1e-50]
    for mode, found in zip(_MODES, call([f"double2float_{mode}" for mode in _MODES], [x], np.float32), strict=True):
        assert found.tolist() == [rounded(Fraction(value), mode, np.float32) for value in x.tolist()]


def test_functions_of_integers() -> None:
    listed = [0, 1, -1, 2, 12345, -12345, 2**31 - 1, -(2**31), 0x00FF00FF, 0x7654_3210, -0x0123_4567, 255, 8, 9, 10, 77]
    x = np.array(listed, dtype=np.int32)
    y, z = np.roll(x, 5), np.roll(x, 9)
    bits = [value % 2**32 for value in listed]
    one = call(["clz", "popc", "ffs", "brev", "abs"], [x], np.int32)
    assert one[0].tolist() == [32 - value.bit_length() for value in bits]
    assert one[1].tolist() == [value.bit_count() for value in bits]
    assert one[2].tolist() == [(value & -value).bit_length() for value in bits]
    assert one[3].view(np.uint32).tolist() == [int(f"{value:032b}"[::-1], 2) for value in bits]
    assert one[4].view(np.uint32).tolist() == [abs(value) for value in listed]
    names = ["mulhi", "umulhi", "mul24", "umul24", "hadd", "uhadd", "rhadd", "urhadd"]
    found = dict(zip(names, call(names, [x, y], np.int32), strict=True))
    for i, (a, b) in enumerate(zip(listed, y.tolist(), strict=True)):
        ua, ub, sa, sb = a % 2**32, b % 2**32, (a + 2**23) % 2**24 - 2**23, (b + 2**23) % 2**24 - 2**23
        wanted = [a * b >> 32, ua * ub >> 32, sa * sb, (ua % 2**24) * (ub % 2**24)]
        wanted += [(a + b) >> 1, (ua + ub) >> 1, (a + b + 1) >> 1, (ua + ub + 1) >> 1]
        for name, value in zip(names, wanted, strict=True):
            assert int(found[name][i]) % 2**32 == value % 2**32, (name, a, b)
    sad, usad, perm = call(["sad", "usad", "byte_perm"], [x, y, z], np.int32)
    for i, (a, b, c) in enumerate(zip(listed, y.tolist(), z.tolist(), strict=True)):
        assert int(sad[i]) % 2**32 == (abs(a - b) + c) % 2**32
        assert int(usad[i]) % 2**32 == (abs(a % 2**32 - b % 2**32) + c) % 2**32
        octets = (a % 2**32).to_bytes(4, "little") + (b % 2**32).to_bytes(4, "little")
        chosen = [octets[c >> 4 * n & 7] for n in range(4)]
        signs = [(0xFF if byte & 0x80 else 0) if c >> 4 * n & 8 else byte for n, byte in enumerate(chosen)]
        assert int(perm[i]) % 2**32 == int.from_bytes(bytes(signs), "little")


def test_functions_of_long_integers_and_bits() -> None:
    listed = [0, 1, -1, 2**63 - 1, -(2**63), 0x0123_4567_89AB_CDEF, 3 << 40, 5] * 2
    x = np.array(listed, dtype=np.int64)
    y = np.roll(x, 3)
    bits = [value % 2**64 for value in listed]
    clz, popc, ffs = call(["clzll", "popcll", "ffsll"], [x], np.int32)
    assert clz.tolist() == [64 - value.bit_length() for value in bits]
    assert popc.tolist() == [value.bit_count() for value in bits]
    assert ffs.tolist() == [(value & -value).bit_length() for value in bits]
    high, unsigned = call(["mul64hi", "umul64hi"], [x, y], np.int64)
    assert high.tolist() == [a * b >> 64 for a, b in zip(listed, y.tolist(), strict=True)]
    products = [(a * (b % 2**64)) >> 64 for a, b in zip(bits, y.tolist(), strict=True)]
    assert unsigned.view(np.uint64).tolist() == products
    assert call(["longlong_as_double"], [x], np.float64)[0].tobytes() == x.tobytes()


def test_parts_and_kinds_of_floats() -> None:
    listed = [0.0, -0.0, 1.5, -2.75, np.inf, -np.inf, np.nan, -np.nan, 1e-310, -1e-40, 0.3, 1e300, 8, -1e-45, 7, 0.99]
    x = np.array(listed)
    with np.errstate(all="ignore"):
        narrow = x.astype(np.float32)
    high, low = call(["double2hiint", "double2loint"], [x], np.int32)
    assert call(["hiloint2double"], [high, low], np.float64)[0].tobytes() == x.tobytes()
    for suffix, values in (("f", narrow), ("d", x)):
        nan, infinite, sign = call([f"isnan{suffix}", f"isinf{suffix}", f"signbit{suffix}"], [values], np.int32)
        finite, exponent = call(["finitef", "ilogbf"] if suffix == "f" else ["isfinited", "ilogb"], [values], np.int32)
        assert (nan != 0).tolist() == np.isnan(values).tolist()
        assert (infinite != 0).tolist() == np.isinf(values).tolist()
        assert (sign != 0).tolist() == np.signbit(values).tolist()
        assert (finite != 0).tolist() == np.isfinite(values).tolist()
        for value, got in zip(values.tolist(), exponent.tolist(), strict=True):
            if math.isfinite(value) and value:
                assert got == math.frexp(value)[1] - 1
            else:
                assert got == (2**31 - 1 if math.isinf(value) else -(2**31))
    assert np.nanmax(np.abs(call(["rcp64h"], [x[2:4]], np.float64)[0] * x[2:4] - 1)) < 1e-6
    saturated = call(["saturatef"], [narrow], np.float32)[0]
    assert saturated.tolist() == np.nan_to_num(np.clip(narrow, 0, 1)).tolist()


_SPECIAL: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "erfcx": torch.special.erfcx,
    "normcdf": torch.special.ndtr,
    "normcdfinv": torch.special.ndtri,
    "erfinv": torch.special.erfinv,
    "cyl_bessel_i0": torch.special.i0,
    "cyl_bessel_i1": torch.special.i1,
    "j0": torch.special.bessel_j0,
    "lgamma": torch.special.gammaln,
    "rsqrt": torch.rsqrt,
    "exp10": lambda x: torch.pow(10.0, x),
}


def test_rare_functions_of_doubles() -> None:
    x = torch.linspace(0.01, 0.99, 64, dtype=torch.float64)
    found = call(list(_SPECIAL), [x.numpy()], np.float64)
    for (name, truth), got in zip(_SPECIAL.items(), found, strict=True):
        np.testing.assert_allclose(got, truth(x).numpy(), rtol=3e-14, err_msg=name)
    wide = torch.linspace(0.5, 24.5, 64, dtype=torch.float64)
    scaled = torch.special.erfcx(wide).numpy()
    np.testing.assert_allclose(call(["erfcx"], [wide.numpy()], np.float64)[0], scaled, 3e-15)
    roots = [Decimal(x) / Decimal(2).sqrt() for x in wide.tolist()]
    scaled = torch.special.erfcx(torch.tensor([float(root) for root in roots], dtype=torch.float64)).tolist()
    tail = [float(Decimal(value) * (-root * root).exp() / 2) for value, root in zip(scaled, roots, strict=True)]
    np.testing.assert_allclose(call(["normcdf"], [-wide.numpy()], np.float64)[0], tail, 3e-15)


def test_functions_with_an_integer_argument() -> None:
    n, x = np.arange(-8, 8, dtype=np.int32), np.linspace(0.5, 3, 16)
    assert call(["ldexp"], [x, n], np.float64)[0].tolist() == np.ldexp(x, n).tolist()
    assert (
        call(["scalbnf"], [x.astype(np.float32), n], np.float32)[0].tolist()
        == np.ldexp(x.astype(np.float32), n).tolist()
    )
    np.testing.assert_allclose(call(["powi"], [x, n], np.float64)[0], x ** n.astype(float), rtol=1e-15)
    bessel = call(["jnf"], [np.abs(n), x.astype(np.float32)], np.float32)[0]
    np.testing.assert_allclose(bessel[8], torch.special.bessel_j0(torch.tensor(x[8])), rtol=1e-6)


FMA = """
module {
  tt.func public @k(%x: !tt.ptr<f32>, %out: !tt.ptr<f32>) {
    %r = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %c = arith.constant dense<-1.000000e+00> : tensor<16xf32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %xp = tt.addptr %xs, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %v = tt.load %xp : tensor<16x!tt.ptr<f32>>
    %y = math.fma %v, %v, %c : tensor<16xf32>
    %os = tt.splat %out : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %op = tt.addptr %os, %r : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %op, %y : tensor<16x!tt.ptr<f32>>
    tt.return
  }
}
"""


@pytest.mark.parametrize("level", [isa.host_isa(), isa.BASELINE], ids=["host", "baseline"])
def test_fma_rounds_once_at_every_level(level: isa.Isa) -> None:
    x, out = np.float32(1) + np.arange(16, dtype=np.float32) * np.float32(2**-23), np.zeros(16, dtype=np.float32)
    launch.compile_ttir(FMA, isa=level).launch((1, 1, 1), [x.ctypes.data, out.ctypes.data])
    assert out.tolist() == (x.astype(np.float64) ** 2 - 1).astype(np.float32).tolist()


def test_no_symbol_of_cudas_module_is_missing() -> None:
    import re
    from pathlib import Path

    from triton.language.extra.cuda import libdevice as cuda

    symbols = set(re.findall(r'"(__nv_\w+)"', Path(cuda.__file__).read_text()))
    assert len(symbols) > 300
    assert [symbol for symbol in sorted(symbols) if lookup(symbol) is None] == []
    assert lookup("__nv_nonsense") is None
    assert lookup("expf") is None
