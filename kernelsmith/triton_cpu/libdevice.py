"""What NVIDIA's libdevice symbols mean here, for kernels that name them (`tl.extra.cuda.libdevice`).

Meanings are those of the CUDA libdevice user's guide; a trailing `f` marks the float32 version. A symbol that is
simply a function of the maths library needs no row.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelsmith.triton_cpu import mathlib


@dataclass(frozen=True)
class Symbol:
    """A maths library function, or an expression on `{0}`, `{1}`; `converts` when the result is an integer."""

    function: str = ""
    expression: str | None = None
    converts: bool = False


# x - x is NaN exactly for infinities and NaN.
_EXPRESSIONS = {
    "fabs": "ks_abs({0})",
    "fmax": "ks_maxnum({0}, {1})",
    "fmin": "ks_minnum({0}, {1})",
    "fma": "ks_madd({0}, {1}, {2})",
    "fma_rn": "ks_madd({0}, {1}, {2})",
    "isnan": "(ks_mask({0} != {0}) & 1)",
    "isinf": "(ks_mask({0} == {0}) & ks_mask({0} - {0} != {0} - {0}) & 1)",
    "finite": "(ks_mask({0} - {0} == {0} - {0}) & 1)",
    "fast_fdivide": "({0} / {1})",
} | {
    f"{letter}{name}_rn": f"({{0}} {operator} {{1}})"
    for letter in ("f", "d", "")
    for name, operator in (("add", "+"), ("sub", "-"), ("mul", "*"), ("div", "/"))
}
_OTHER_NAMES = {"fsqrt_rn": "sqrt", "dsqrt_rn": "sqrt", "frsqrt_rn": "rsqrt"}


def lookup(symbol: str) -> Symbol | None:
    """The meaning of a libdevice symbol, or None."""
    if not symbol.startswith("__nv_"):
        return None
    name = symbol.removeprefix("__nv_")
    for candidate in (name, name.removesuffix("f")):
        base = _OTHER_NAMES.get(candidate, candidate.removeprefix("fast_"))
        if candidate in _EXPRESSIONS:
            return Symbol(expression=_EXPRESSIONS[candidate])
        if f"ks_{base}_f64" in mathlib.available() or f"ks_{base}_f32" in mathlib.available():
            return Symbol(function=base)
        if base in ("llrint", "lrint", "llround", "lround"):
            return Symbol(function=base.lstrip("l"), converts=True)
    return None
