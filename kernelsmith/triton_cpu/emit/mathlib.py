"""Mathematical functions for generated kernels, which include no header.

    source({"ks_exp_f32"}, isa)   the C++ text of that function and of everything it calls

Owns the functions `ks_NAME_f32` on vectors `vf32` (with `vi32`, both defined by the caller's prelude: `isa.lanes`
floats or ints) and `ks_NAME_f64` on double. Invariant: every f32 function is within 2 units in the last place of the
exact result, and NaN, infinities, zeros and denormals come out as C's Annex F says. The fast ones are our own
(`cpp/math_*.h`); those for double, and the rare ones, call the C library one value at a time.
Called by the code generator.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.triton_cpu.isa import Isa
from kernelsmith.triton_cpu.read import formats

_FOLDER = Path(__file__).parents[1] / "cpp"

# Functions of the C library, by the types of their arguments. All return double.
_LIBM = {
    ("double",): "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 exp10 expm1 fabs floor j0 j1 "
    "lgamma log log10 log1p log2 logb nearbyint rint round sin sinh sqrt tan tanh tgamma trunc y0 y1",
    ("double", "double"): "atan2 copysign fdim fmod hypot nextafter pow remainder",
    ("double", "double", "double"): "fma",
    ("double", "int"): "ldexp scalbn",
    ("int", "double"): "jn yn",
}
# The rare f32 functions, by their parameters: double in between, so that the result is the exact one rounded.
_RARE = {
    "vf32 x": "cyl_bessel_i0 cyl_bessel_i1 erfc erfcinv erfcx erfinv j0 j1 lgamma logb normcdf normcdfinv rcbrt tgamma "
    "y0 y1",
    "vf32 x, vf32 y": "remainder rhypot",
    "vf32 x, vf32 y, vf32 z": "norm3d rnorm3d",
    "vf32 x, vf32 y, vf32 z, vf32 w": "norm4d rnorm4d",
    "vf32 x, vi32 n": "ldexp powi scalbn",
    "vi32 n, vf32 x": "jn yn",
}
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


def defines(name: str) -> bool:
    """Whether some piece defines this C++ name."""
    return any(name in section.names for section in _sections())


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
    return f"#define KSM_LANES {isa.lanes}\n" + "\n".join(s.text for s in _sections() if s in needed)


@functools.cache
def _sections() -> tuple[_Section, ...]:
    """Every piece, in an order in which each stands after what it needs."""
    found = [
        *_library_sections(),
        *_file_sections("math_rare.h"),
        *_rare_sections(),
        *_file_sections("math_f32.h"),
        *_file_sections("math_wide.h"),
        *_file_sections("libdevice.h"),
        *_file_sections("convert.h"),
        *formats.sections(),
    ]
    every = {name for names, _ in found for name in names}
    return tuple(
        _Section(names, text, frozenset(every.intersection(re.findall(r"\w+", text)) - names)) for names, text in found
    )


def _file_sections(file: str) -> Iterator[tuple[frozenset[str], str]]:
    _, *parts = (_FOLDER / file).read_text().split("\n//@ ")
    for part in parts:
        names, _, text = part.partition("\n")
        yield frozenset(names.split()), text


def _library_sections() -> Iterator[tuple[frozenset[str], str]]:
    for types, names in _LIBM.items():
        parameters = ", ".join(f"{kind} {letter}" for kind, letter in zip(types, "xyz", strict=False))
        arguments = ", ".join("xyz"[: len(types)])
        for name in names.split():
            callee = f"__builtin_{name}" if name in _INLINED else name
            yield (
                frozenset({f"ks_{name}_f64"}),
                f'extern "C" double {name}({", ".join(types)});\n'
                f"static inline double ks_{name}_f64({parameters}) {{ return {callee}({arguments}); }}\n",
            )


def _rare_sections() -> Iterator[tuple[frozenset[str], str]]:
    for parameters, names in _RARE.items():
        arguments = ", ".join(f"{parameter.split()[1]}[i]" for parameter in parameters.split(", "))
        for name in names.split():
            yield (
                frozenset({f"ks_{name}_f32"}),
                f"static __attribute__((noinline)) vf32 ks_{name}_f32({parameters}) {{\n"
                "    vf32 r;\n"
                f"    for (int i = 0; i < KSM_LANES; i++) r[i] = (float)ks_{name}_f64({arguments});\n"
                "    return r;\n}\n",
            )
