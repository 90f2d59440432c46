"""What `triton.language.extra.libdevice` means on the CPU.

Owns the names; each call becomes a `tt.extern_elementwise` with CUDA's symbol (`__nv_expf`), for which the code
generator has a table, so kernels that import CUDA's own libdevice module compile alike. Invariant: a function exists
here for each name that TorchInductor and common kernel libraries use. Imported by `compiler` when a kernel is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.language import core

_INT, _UINT, _LONG, _ULONG = core.dtype("int32"), core.dtype("uint32"), core.dtype("int64"), core.dtype("uint64")
_FLOAT, _DOUBLE = core.dtype("fp32"), core.dtype("fp64")

Overloads = dict[tuple[core.dtype, ...], tuple[str, core.dtype]]

# float functions named `__nv_NAMEf` and `__nv_NAME`, by number of arguments
_FLOAT_FUNCTIONS = {
    1: "acos acosh asin asinh atan atanh cbrt ceil cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 erf erfc erfcinv erfcx "
    "erfinv exp exp10 exp2 expm1 floor j0 j1 lgamma log log10 log1p log2 logb nearbyint normcdf normcdfinv rcbrt "
    "rint round rsqrt sin sinh sinpi sqrt tan tanh tgamma trunc y0 y1",
    2: "atan2 copysign fdim fmod hypot nextafter pow remainder rhypot",
    3: "fma norm3d rnorm3d",
    4: "norm4d rnorm4d",
}
_FLOAT_ONLY = {
    1: "fast_cosf fast_exp10f fast_expf fast_log10f fast_log2f fast_logf fast_sinf fast_tanf saturatef",
    2: "fast_powf",
}
_ROUNDED = {"add": 2, "mul": 2, "div": 2, "sub": 2, "rcp": 1, "sqrt": 1, "fma": 3}


def _define(name: str, overloads: Overloads) -> Callable[..., Any]:
    def function(*arguments: Any, _semantic: Any = None) -> Any:
        return core.extern_elementwise("", "", list(arguments), overloads, is_pure=True, _semantic=_semantic)

    function.__name__ = function.__qualname__ = name
    function.__module__ = __name__
    extern: Callable[..., Any] = core.extern(function)
    return extern


def _float_overloads() -> dict[str, Overloads]:
    table: dict[str, Overloads] = {}
    for count, names in _FLOAT_FUNCTIONS.items():
        for name in names.split():
            table[name] = {
                (_FLOAT,) * count: (f"__nv_{name}f", _FLOAT),
                (_DOUBLE,) * count: (f"__nv_{name}", _DOUBLE),
            }
    for count, names in _FLOAT_ONLY.items():
        for name in names.split():
            table[name] = {(_FLOAT,) * count: (f"__nv_{name}", _FLOAT)}
    for name, count in _ROUNDED.items():
        single = "__nv_fmaf_rn" if name == "fma" else f"__nv_f{name}_rn"
        double = "__nv_fma_rn" if name == "fma" else f"__nv_d{name}_rn"
        table[f"{name}_rn"] = {(_FLOAT,) * count: (single, _FLOAT), (_DOUBLE,) * count: (double, _DOUBLE)}
    return table


def _mixed_overloads() -> dict[str, Overloads]:
    table: dict[str, Overloads] = {
        "abs": {
            (_INT,): ("__nv_abs", _INT),
            (_LONG,): ("__nv_llabs", _LONG),
            (_FLOAT,): ("__nv_fabsf", _FLOAT),
            (_DOUBLE,): ("__nv_fabs", _DOUBLE),
        },
        "pow": {
            (_FLOAT, _INT): ("__nv_powif", _FLOAT),
            (_DOUBLE, _INT): ("__nv_powi", _DOUBLE),
            (_FLOAT, _FLOAT): ("__nv_powf", _FLOAT),
            (_DOUBLE, _DOUBLE): ("__nv_pow", _DOUBLE),
        },
        "isnan": {(_FLOAT,): ("__nv_isnanf", _INT), (_DOUBLE,): ("__nv_isnand", _INT)},
        "isinf": {(_FLOAT,): ("__nv_isinff", _INT), (_DOUBLE,): ("__nv_isinfd", _INT)},
        "finitef": {(_FLOAT,): ("__nv_finitef", _INT)},
        "isfinited": {(_DOUBLE,): ("__nv_isfinited", _INT)},
        "signbit": {(_FLOAT,): ("__nv_signbitf", _INT), (_DOUBLE,): ("__nv_signbitd", _INT)},
        "ilogb": {(_FLOAT,): ("__nv_ilogbf", _INT), (_DOUBLE,): ("__nv_ilogb", _INT)},
        "llrint": {(_FLOAT,): ("__nv_llrintf", _LONG), (_DOUBLE,): ("__nv_llrint", _LONG)},
        "llround": {(_FLOAT,): ("__nv_llroundf", _LONG), (_DOUBLE,): ("__nv_llround", _LONG)},
        "mulhi": {
            (_INT, _INT): ("__nv_mulhi", _INT),
            (_UINT, _UINT): ("__nv_umulhi", _UINT),
            (_LONG, _LONG): ("__nv_mul64hi", _LONG),
            (_ULONG, _ULONG): ("__nv_umul64hi", _ULONG),
        },
        "clz": {(_INT,): ("__nv_clz", _INT), (_LONG,): ("__nv_clzll", _INT)},
        "popc": {(_INT,): ("__nv_popc", _INT), (_LONG,): ("__nv_popcll", _INT)},
        "ffs": {(_INT,): ("__nv_ffs", _INT), (_LONG,): ("__nv_ffsll", _INT)},
        "brev": {(_INT,): ("__nv_brev", _INT), (_LONG,): ("__nv_brevll", _LONG)},
        "fast_dividef": {(_FLOAT, _FLOAT): ("__nv_fast_fdividef", _FLOAT)},
        "rsqrt_rn": {(_FLOAT,): ("__nv_frsqrt_rn", _FLOAT)},
        "double_as_longlong": {(_DOUBLE,): ("__nv_double_as_longlong", _LONG)},
        "longlong_as_double": {(_LONG,): ("__nv_longlong_as_double", _DOUBLE)},
        "float_as_int": {(_FLOAT,): ("__nv_float_as_int", _INT)},
        "int_as_float": {(_INT,): ("__nv_int_as_float", _FLOAT)},
        "float_as_uint": {(_FLOAT,): ("__nv_float_as_uint", _UINT)},
        "uint_as_float": {(_UINT,): ("__nv_uint_as_float", _FLOAT)},
    }
    for name in ("ldexp", "scalbn"):
        table[name] = {(_FLOAT, _INT): (f"__nv_{name}f", _FLOAT), (_DOUBLE, _INT): (f"__nv_{name}", _DOUBLE)}
    for name in ("jn", "yn"):
        table[name] = {(_INT, _FLOAT): (f"__nv_{name}f", _FLOAT), (_INT, _DOUBLE): (f"__nv_{name}", _DOUBLE)}
    return table


def _conversion_overloads() -> dict[str, Overloads]:
    """Conversions with the rounding in their name: nearest even, down, up, towards zero."""
    integers = {"int": _INT, "uint": _UINT, "ll": _LONG, "ull": _ULONG}
    table: dict[str, Overloads] = {}
    for rounding in ("rn", "rd", "ru", "rz"):
        table[f"double2float_{rounding}"] = {(_DOUBLE,): (f"__nv_double2float_{rounding}", _FLOAT)}
        for name, integer in integers.items():
            table[f"float2{name}_{rounding}"] = {(_FLOAT,): (f"__nv_float2{name}_{rounding}", integer)}
            table[f"double2{name}_{rounding}"] = {(_DOUBLE,): (f"__nv_double2{name}_{rounding}", integer)}
            table[f"{name}2float_{rounding}"] = {(integer,): (f"__nv_{name}2float_{rounding}", _FLOAT)}
            table[f"{name}2double_{rounding}"] = {(integer,): (f"__nv_{name}2double_{rounding}", _DOUBLE)}
    return table


_OVERLOADS: dict[str, Overloads] = {**_float_overloads(), **_mixed_overloads(), **_conversion_overloads()}
globals().update({name: _define(name, overloads) for name, overloads in _OVERLOADS.items()})


def __getattr__(name: str) -> Any:
    raise AttributeError(f"libdevice function {name!r} is not provided on the CPU")
