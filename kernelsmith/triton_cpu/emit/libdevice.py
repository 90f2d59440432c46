"""What NVIDIA's libdevice symbols mean here, for kernels that name them (`tl.extra.libdevice`, `tl.extra.cuda`), and
those of Huawei's (`tl.extra.ascend`), which has few of the same.

Meanings are those of the CUDA libdevice user's guide; a trailing `f` marks the float32 version, `Dh` Huawei's of
float16. A symbol that is simply a function of the maths library needs no row, nor does one that `cpp/libdevice.h`
defines as `ksl_NAME`.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from kernelsmith.triton_cpu.emit import mathlib


@dataclass(frozen=True)
class Symbol:
    """How a symbol is computed: exactly one of the first three is given.

    Attributes:
        function: a maths library function, by its name without `ks_` and width.
        expression: C++ for scalars and vectors alike; its arguments are `{0}`, `{1}`, ...
        lanes: C++ for scalars only.
        needs: the pieces of `cpp/libdevice.h` that the code calls.
    """

    function: str = ""
    expression: str = ""
    lanes: str = ""
    needs: tuple[str, ...] = ()


_HUAWEI = "__hmf_"
_OF_HUAWEI = {
    "recip": Symbol(expression="(1 / {0})"),
    "relu": Symbol(lanes="[](auto x) { return x < 0 ? decltype(x)(0) : x; }"),
}
"""Those that NVIDIA's has not."""
# x - x is NaN exactly for infinities and NaN.
_EXPRESSIONS = {
    "fabs": "ks_abs({0})",
    "fmax": "ks_maxnum({0}, {1})",
    "fmin": "ks_minnum({0}, {1})",
    "isnan": "(ks_mask({0} != {0}) & 1)",
    "isinf": "(ks_mask({0} == {0}) & ks_mask({0} - {0} != {0} - {0}) & 1)",
    "finite": "(ks_mask({0} - {0} == {0} - {0}) & 1)",
    "fast_fdivide": "({0} / {1})",
}
_OTHER_NAMES = {
    "isnand": "isnan",
    "isinfd": "isinf",
    "isfinited": "finite",
    "fsqrt_rn": "sqrt",
    "dsqrt_rn": "sqrt",
    "frsqrt_rn": "rsqrt",
    "fma_rn": "fma",
    "fmaf_rn": "fma",
    "float_as_uint": "float_as_int",
    "uint_as_float": "int_as_float",
}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_MODES = {"rn": "KSL_NEAR", "rd": "KSL_DOWN", "ru": "KSL_UP", "rz": "KSL_ZERO"}
_ARITHMETIC = re.compile(r"(?P<letter>[fd])(?P<name>add|sub|mul|div|rcp|sqrt)_(?P<mode>r[nduz])")
_FUSED = re.compile(r"fma(?P<letter>f?)_(?P<mode>r[duz])")
_CONVERSION = re.compile(
    r"(?P<source>float|double|int|uint|ll|ull)2(?P<target>float|double|int|uint|ll|ull)_(?P<mode>r[nduz])"
)
_TYPES = {"float": "f32", "double": "f64", "int": "i32", "uint": "u32", "ll": "i64", "ull": "u64"}
_TO_WHOLE = {"rn": "rint", "rd": "floor", "ru": "ceil", "rz": "trunc"}


@functools.cache
def lookup(symbol: str) -> Symbol | None:
    """The meaning of a libdevice symbol, or None."""
    if symbol.startswith(_HUAWEI):
        name = symbol.removeprefix(_HUAWEI).removesuffix("Dh")
        if own := _OF_HUAWEI.get(name.removesuffix("f")):
            return own
    elif symbol.startswith("__nv_"):
        name = symbol.removeprefix("__nv_")
    else:
        return None
    for candidate in (name, name.removesuffix("f")):
        base = _OTHER_NAMES.get(candidate, candidate)
        if mathlib.defines(f"ksl_{base}"):
            return Symbol(lanes=f"ksl_{base}", needs=(f"ksl_{base}",))
        if base in _EXPRESSIONS:
            return Symbol(expression=_EXPRESSIONS[base])
        base = base.removeprefix("fast_")
        if mathlib.defines(f"ks_{base}_f64") or mathlib.defines(f"ks_{base}_f32"):
            return Symbol(function=base)
    return _nearest_integer(name) or _directed(name) or _conversion(name)


def _nearest_integer(name: str) -> Symbol | None:
    base = name.removesuffix("f").removeprefix("l")
    if base not in ("lrint", "lround"):
        return None
    width = "f" if name.endswith("f") else ""
    call = f"__builtin_{base.removeprefix('l')}{width}(x)"
    return Symbol(lanes=f"[](auto x) {{ return ksl_whole<i64>({call}); }}", needs=("ksl_whole",))


def _directed(name: str) -> Symbol | None:
    """Arithmetic with a rounding mode in its name."""
    fused = _FUSED.fullmatch(name)
    if fused:
        width = fused["letter"]
        code = f"[](auto x, auto y, auto z) {{{{ return __builtin_fma{width}(x, y, z); }}}}, {{0}}, {{1}}, {{2}}"
        return Symbol(lanes=_lambda(f"ksl_rounded<{_MODES[fused['mode']]}>({code})", 3), needs=("ksl_rounded",))
    match = _ARITHMETIC.fullmatch(name)
    if match is None:
        return None
    operator, mode = _OPERATORS.get(match["name"]), _MODES[match["mode"]]
    if operator is not None:
        if match["mode"] == "rn":
            return Symbol(expression=f"({{0}} {operator} {{1}})")
        code = f"[](auto x, auto y) {{{{ return x {operator} y; }}}}, {{0}}, {{1}}"
        return Symbol(expression=f"ksl_rounded<{mode}>({code})", needs=("ksl_rounded",))
    width = "f" if match["letter"] == "f" else ""
    value = "1 / x" if match["name"] == "rcp" else f"__builtin_sqrt{width}(x)"
    code = f"[](auto x) {{{{ return {value}; }}}}, {{0}}"
    return Symbol(lanes=_lambda(f"ksl_rounded<{mode}>({code})", 1), needs=("ksl_rounded",))


def _conversion(name: str) -> Symbol | None:
    """A conversion with a rounding mode in its name."""
    match = _CONVERSION.fullmatch(name)
    if match is None:
        return None
    source, target = _TYPES[match["source"]], _TYPES[match["target"]]
    if target.startswith("f"):
        code = f"ksl_rounded<{_MODES[match['mode']]}>([]({source} x) {{{{ return ({target})x; }}}}, ({source}){{0}})"
        return Symbol(lanes=_lambda(code, 1), needs=("ksl_rounded",))
    width = "f" if source == "f32" else ""
    whole = f"ksl_whole<{target}>(__builtin_{_TO_WHOLE[match['mode']]}{width}({{0}}))"
    return Symbol(lanes=_lambda(whole, 1), needs=("ksl_whole",))


def _lambda(code: str, count: int) -> str:
    """A C++ function of scalars from a template of an expression."""
    names = ["p", "q", "r"][:count]
    parameters = ", ".join(f"auto {name}" for name in names)
    return f"[]({parameters}) {{ return {code.format(*names)}; }}"
