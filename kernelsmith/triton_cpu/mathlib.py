"""Mathematical functions for generated kernels, which include no header.

    source({"ks_exp_f32"}, isa)   the C++ text of that function and of everything it calls

Owns the functions `ks_NAME_f32` on vectors `vf32` (with `vi32`, both defined by the caller's prelude: `isa.lanes`
floats or ints) and `ks_NAME_f64` on double. Invariant: every f32 function is within 2 units in the last place of the
exact result, and NaN, infinities, zeros and denormals come out as C's Annex F says. The fast ones are our own
(`cpp/math_f32.h`, `cpp/math_wide.h`); those for double, and the rare ones, call the C library one value at a time.
Called by the code generator.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.triton_cpu.isa import Isa

_FOLDER = Path(__file__).parent / "cpp"
_FILES = ("math_f32.h", "math_wide.h")

# Functions of the C library, by the types of their arguments. All return double.
_LIBM = {
    ("double",): "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 exp10 expm1 fabs floor j0 j1 "
    "lgamma log log10 log1p log2 logb nearbyint rint round sin sinh sqrt tan tanh tgamma trunc y0 y1",
    ("double", "double"): "atan2 copysign fdim fmod hypot nextafter pow remainder",
    ("double", "double", "double"): "fma",
    ("double", "int"): "ldexp scalbn",
}
# The rare f32 functions: double in between, so that the result is the exact one rounded.
_RARE = ("erfc", "j0", "j1", "lgamma", "logb", "remainder", "tgamma", "y0", "y1")
_INLINED = ("fabs", "ceil", "floor", "rint", "nearbyint", "trunc", "sqrt", "copysign", "fma")


@dataclass(frozen=True)
class _Section:
    names: frozenset[str]
    text: str
    needs: frozenset[str]


def available() -> frozenset[str]:
    """The functions there are, `ks_NAME_f32` and `ks_NAME_f64`."""
    names = (name for section in _sections() for name in section.names)
    return frozenset(name for name in names if name.endswith(("_f32", "_f64")))


def source(names: Iterable[str], isa: Isa) -> str:
    """C++ text that defines these functions and what they call. Raises KeyError for an unknown name."""
    owners = {name: section for section in _sections() for name in section.names}
    needed: set[_Section] = set()
    pending = [owners[name] for name in names]
    while pending:
        section = pending.pop()
        if section not in needed:
            needed.add(section)
            pending += [owners[name] for name in section.needs]
    if not needed:
        return ""
    return f"#define KS_LANES {isa.lanes}\n" + "\n".join(s.text for s in _sections() if s in needed)


@functools.cache
def _sections() -> tuple[_Section, ...]:
    found = [*_library_sections()]
    for file in _FILES:
        _, *parts = (_FOLDER / file).read_text().split("\n//@ ")
        found += [(frozenset(part.partition("\n")[0].split()), part.partition("\n")[2]) for part in parts]
    every = frozenset().union(*(names for names, _ in found))
    return tuple(_Section(names, text, (every & set(re.findall(r"\w+", text))) - names) for names, text in found)


def _library_sections() -> Iterator[tuple[frozenset[str], str]]:
    for types, names in _LIBM.items():
        parameters = ", ".join(f"{kind} {letter}" for kind, letter in zip(types, "xyz", strict=False))
        arguments = ", ".join("xyz"[: len(types)])
        for name in names.split():
            declaration = f'extern "C" double {name}({", ".join(types)});\n'
            callee = f"__builtin_{name}" if name in _INLINED else name
            body = f"static inline double ks_{name}_f64({parameters}) {{ return {callee}({arguments}); }}\n"
            yield frozenset({f"ks_{name}_f64"}), declaration + body
    yield (
        frozenset({"ks_rsqrt_f64"}),
        "static inline double ks_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }\n",
    )
    for name in _RARE:
        binary = name in _LIBM["double", "double"].split()
        yield frozenset({f"ks_{name}_f32"}), _by_lane(name, binary=binary)
    yield frozenset({"ks_nextafter_f32"}), _by_lane("nextafter", binary=True, single=True)


def _by_lane(name: str, *, binary: bool, single: bool = False) -> str:
    """An f32 vector function that asks a scalar one for each lane: ours for double, or the C library's for float."""
    callee = f"__builtin_{name}f" if single else f"ks_{name}_f64"
    parameters, arguments = ("vf32 x, vf32 y", "x[i], y[i]") if binary else ("vf32 x", "x[i]")
    return (
        f"static __attribute__((noinline)) vf32 ks_{name}_f32({parameters}) {{\n"
        f"    vf32 r;\n    for (int i = 0; i < KS_LANES; i++) r[i] = (float){callee}({arguments});\n    return r;\n}}\n"
    )
