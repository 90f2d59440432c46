"""Generated kernels' mathematics against float64: accuracy, special values, and nothing emitted unasked."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pytest

from kernelsmith.triton_cpu import isa
from kernelsmith.triton_cpu.emit import mathlib
from kernelsmith.triton_cpu.run import build, pool

Truth = Callable[..., npt.NDArray[np.float64]]
F32 = np.float32

MOST_ULP = 2.0
_SPECIAL = np.array(
    [
        *(0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, -2, 0.5, -0.5, 3, -3, 1e-45, -1e-45, 1e-40, 1.17549435e-38),
        *(3.4e38, -3.4e38, 88.7, 88.8, 89, -87.4, -103.9, -104.1, 127.99, 128, -149, -150, 16777216, 16777217, -1e10),
    ],
    dtype=F32,
)


def by_element(function: Callable[..., float]) -> Truth:
    def guarded(*values: float) -> float:
        try:
            return function(*values)
        except (ValueError, OverflowError):
            return math.nan

    return np.vectorize(guarded, otypes=[np.float64])


def sine_of_pi(x: npt.NDArray[np.float64], quarter: int) -> npt.NDArray[np.float64]:
    twice = np.fmod(x, 2.0) * 2
    quarters = np.rint(twice)
    angle = (twice - quarters) * (np.pi / 2)
    turn = (np.where(np.isfinite(x), quarters, 0).astype(int) + quarter) & 3
    value = np.where(turn & 1, np.cos(angle), np.sin(angle))
    value = np.where(turn & 2, -value, value)
    zero = np.copysign(0.0, x) if quarter == 0 else np.zeros_like(x)
    return np.where(np.isfinite(x), np.where(value == 0, zero, value), np.nan)


def round_half_away(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


def root(function: Callable[[float], float], value: float) -> float:
    """x with function(x) = value for a growing odd function that is 1 at 6, by bisection."""
    low, high = 0.0, 6.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < abs(value) else (low, middle)
    return math.copysign(low, value)


def tail(x: float) -> float:
    """exp(x^2) * erfc(x) for x >= 25, by the continued fraction."""
    fraction = x
    for k in range(60, 0, -1):
        fraction = x + k / 2 / fraction
    return 1 / (fraction * math.sqrt(math.pi))


def divide_towards_zero(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    quotient = x.astype(np.longdouble) / y
    nearest = quotient.astype(F32)
    too_far = np.abs(nearest) > np.abs(quotient)
    return np.where(too_far, np.nextafter(nearest, F32(0)), nearest).astype(np.float64)


UNARY: dict[str, Truth] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": by_element(math.erf),
    "erfc": by_element(math.erfc),
    "cbrt": np.cbrt,
    "sinpi": lambda x: sine_of_pi(x, 0),
    "cospi": lambda x: sine_of_pi(x, 1),
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
EXACT: dict[str, Truth] = {
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": round_half_away,
    "abs": np.abs,
}
# No truth in numpy: each is checked against the function that it inverts or is made of.
RARE: dict[str, Truth] = {
    "erfinv": by_element(lambda y: math.nan if not abs(y) < 1 else root(math.erf, y)),
    "normcdf": by_element(lambda x: 0.5 * math.erfc(-x / math.sqrt(2))),
    "erfcx": by_element(lambda x: math.exp(x * x) * math.erfc(x) if x < 25 else tail(x)),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "cyl_bessel_i0": np.i0,
}
BINARY: dict[str, Truth] = {"pow": np.power, "atan2": np.arctan2, "hypot": np.hypot}
EXACT_BINARY: dict[str, Truth] = {"fmod": np.fmod, "copysign": np.copysign, "fdiv_rz": divide_towards_zero}
# numpy has no truth for most of these; each is worked out from functions that math has.
RARE: dict[str, Truth] = {
    "erfinv": by_element(lambda p: root(math.erf, p)),
    "normcdf": by_element(lambda x: 0.5 * math.erfc(-x / math.sqrt(2))),
    "erfcx": by_element(lambda x: math.exp(x * x) * math.erfc(x) if x < 25 else tail(x)),
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "cyl_bessel_i0": np.i0,
}
ALL = {**UNARY, **EXACT, **RARE, **BINARY, **EXACT_BINARY}


def prelude(level: isa.Isa) -> str:
    return (
        f"typedef float vf32 __attribute__((vector_size({4 * level.lanes})));\n"
        f"typedef int vi32 __attribute__((vector_size({4 * level.lanes})));\n"
        f"typedef float loose __attribute__((vector_size({4 * level.lanes}), aligned(4)));\n"
    )


def runner(name: str, lanes: int) -> str:
    arguments = "*(const loose *)(x + i), *(const loose *)(y + i)" if name in {**BINARY, **EXACT_BINARY} else ""
    call = f"ks_{name}_f32({arguments or '*(const loose *)(x + i)'})"
    return (
        f'extern "C" void run_{name}(const float *x, const float *y, float *out, long n)\n'
        f"{{ for (long i = 0; i < n; i += {lanes}) *(loose *)(out + i) = {call}; }}\n"
    )


def supported(level: isa.Isa) -> bool:
    host = isa.host_isa()
    return (host.avx512 or not level.avx512) and (host.avx2 or not level.avx2)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Overflow and NaN are what these tests are about."""
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(
    scope="module",
    params=[(isa.host_isa(), True), (isa.AVX2, False), (isa.BASELINE, True)],
    ids=["native", "avx2-unfused", "baseline"],
)
def library(request: pytest.FixtureRequest) -> ctypes.CDLL:
    level, fusion = request.param
    if not supported(level):
        pytest.skip(f"this processor has no {level.name}")
    text = prelude(level) + mathlib.source({f"ks_{name}_f32" for name in ALL}, level)
    text += "".join(runner(name, level.lanes) for name in ALL)
    return pool.load_library(build.compile_shared(text, level, fp_fusion=fusion))


def evaluate(library: ctypes.CDLL, name: str, x: npt.NDArray[F32], y: npt.NDArray[F32]) -> npt.NDArray[F32]:
    out = np.empty_like(x)
    function = getattr(library, f"run_{name}")
    function(*(ctypes.c_void_p(array.ctypes.data) for array in (x, y, out)), ctypes.c_long(x.size))
    return out


def samples(seed: int, count: int = 1 << 14) -> npt.NDArray[F32]:
    """Any bits (huge, denormal, NaN), the range where functions bend, and around 1; a multiple of 64 values."""
    rng = np.random.default_rng(seed)
    any_bits = rng.integers(0, 1 << 32, count, dtype=np.uint32).view(F32)
    parts = [_SPECIAL, any_bits, rng.uniform(-4, 4, count), rng.uniform(-110, 110, count), rng.uniform(0.5, 1.5, count)]
    return np.resize(np.concatenate(parts).astype(F32), 4 * count + 64)


def pairs(name: str) -> tuple[npt.NDArray[F32], npt.NDArray[F32]]:
    x, y = samples(1), np.random.default_rng(3).permutation(samples(2))
    if name == "pow":
        x = np.concatenate([x, np.abs(x)])
        y = np.concatenate([np.rint(np.clip(y, -9, 9)), np.clip(y, -30, 30)])
    first, second = np.meshgrid(_SPECIAL, _SPECIAL)
    x, y = np.concatenate([first.ravel(), x]), np.concatenate([second.ravel(), y])
    whole = x.size // 64 * 64
    return np.ascontiguousarray(x[:whole], dtype=F32), np.ascontiguousarray(y[:whole], dtype=F32)


def check(got: npt.NDArray[F32], exact: npt.NDArray[np.float64], most_ulp: float, name: str) -> None:
    want = exact.astype(F32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=f"{name}: NaN")
    zero = exact == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]), err_msg=f"{name}: sign of zero")
    unit = np.spacing(np.maximum(np.abs(want), F32(1.2e-38)).astype(F32)).astype(np.float64)
    finite = np.isfinite(want)
    error = np.abs(got[finite].astype(np.float64) - exact[finite]) / unit[finite]
    assert error.max() <= most_ulp, f"{name}: {error.max():.3f} ulp at index {error.argmax()}"
    # One step from overflow, an allowed error of one unit may round either way.
    overflow = np.isinf(want) & ~(np.isfinite(exact) & (np.abs(exact) < 3.4028240e38))
    np.testing.assert_array_equal(got[overflow], want[overflow], err_msg=f"{name}: infinity")


@pytest.mark.parametrize("name", [*UNARY, *EXACT])
def test_function_of_one_argument(library: ctypes.CDLL, name: str) -> None:
    x = samples(0)
    exact = ALL[name](x.astype(np.float64))
    check(evaluate(library, name, x, x), exact, 0.5 if name in EXACT else MOST_ULP, name)


@pytest.mark.parametrize("name", RARE)
def test_rare_function(library: ctypes.CDLL, name: str) -> None:
    x = np.linspace(-0.999, 0.999, 2048) if name == "erfinv" else np.linspace(-9, 60, 2048)
    x = x.astype(F32)
    check(evaluate(library, name, x, x), ALL[name](x.astype(np.float64)), MOST_ULP, name)


@pytest.mark.parametrize("name", [*BINARY, *EXACT_BINARY])
def test_function_of_two_arguments(library: ctypes.CDLL, name: str) -> None:
    x, y = pairs(name)
    exact = ALL[name](x.astype(np.float64), y.astype(np.float64))
    check(evaluate(library, name, x, y), exact, 0 if name in EXACT_BINARY else MOST_ULP, name)


def test_sine_and_cosine_of_huge_angles(library: ctypes.CDLL) -> None:
    x = np.array([1e5, 1e6, 1e7, 3.3e7, 1e10, 1e20, 1e30, 3.4e38, 8.56e12, -1.0e9] * 32, dtype=F32)
    for name, truth in (("sin", np.sin), ("cos", np.cos), ("tan", np.tan)):
        check(evaluate(library, name, x, x), truth(x.astype(np.float64)), MOST_ULP, name)


def test_every_function_compiles_and_some_rare_ones_are_right() -> None:
    level = isa.host_isa()
    text = prelude(level) + mathlib.source(mathlib.available(), level)
    text += (
        'extern "C" float f(float x) { vf32 v = x - vf32{}; vi32 n = vi32{} + 3; return'
        " ks_norm3d_f32(v, v, v)[0] + ks_ldexp_f32(v, n)[0] + ks_powi_f32(v, n)[0] + ks_jn_f32(n, v)[0]"
        " + ks_remainder_f32(v, v * 0.3f)[0] + ks_nextafter_f32(v, v)[0]; }\n"
    )
    library = pool.load_library(build.compile_shared(text, level, fp_fusion=True))
    library.f.restype = ctypes.c_float
    x = 1.75
    bessel = 0.0918509435  # J3(1.75)
    expected = x * math.sqrt(3) + 8 * x + x**3 + bessel + math.remainder(x, float(F32(0.3) * F32(x))) + x
    assert library.f(ctypes.c_float(x)) == pytest.approx(expected, rel=1e-6)


def test_source_holds_what_is_needed_and_no_more() -> None:
    text = mathlib.source({"ks_tanh_f32"}, isa.AVX2)
    assert "vf32 ks_tanh_f32" in text
    assert "vf32 ks_exp_f32" in text
    assert "ks_sin_f32" not in text
    assert text.index("vf32 ks_exp_f32") < text.index("vf32 ks_tanh_f32")
    assert mathlib.source(set(), isa.AVX2) == ""


def test_source_refuses_an_unknown_name() -> None:
    with pytest.raises(KeyError, match="ks_frobnicate_f32"):
        mathlib.source({"ks_frobnicate_f32"}, isa.AVX2)


def test_double_functions_are_those_of_the_c_library() -> None:
    level = isa.host_isa()
    names = sorted(name for name in mathlib.available() if name.endswith("_f64"))
    text = prelude(level) + mathlib.source(names, level)
    text += 'extern "C" double f(double x) { return ks_exp_f64(ks_lgamma_f64(x)) + ks_ldexp_f64(x, 3); }\n'
    library = pool.load_library(build.compile_shared(text, level, fp_fusion=True))
    library.f.restype = ctypes.c_double
    assert library.f(ctypes.c_double(4.5)) == pytest.approx(math.gamma(4.5) + 36, rel=1e-15)
