"""The floating-point formats narrower than float32, as numbers, and the C++ that converts to and from them.

One row per format says all that a conversion must know. fp16 and bf16 have conversions of their own in the prelude,
where the processor helps; the rest are the templates of `cpp/convert.h` with a row's numbers. Called by the reader of
constants, the expression writer and `mathlib`.

Out of range, a conversion that rounds to nearest gives an 8-bit float's largest number, infinities included, as
NVIDIA's `cvt.satfinite` and AMD's clamping mode do; one that rounds towards zero keeps infinities.
"""

from __future__ import annotations

import bisect
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from kernelsmith.triton_cpu.read.ir import Element


@dataclass(frozen=True)
class FloatFormat:
    """A sign, an exponent with `bias`, and `mantissa` bits; the other fields are the codes of positive values.

    `nan` is the canonical NaN; where it is the sign bit alone, there is no negative zero. Without `infinity`, the
    exponent's last value is an ordinary one.
    """

    mantissa: int
    bias: int
    largest: int
    nan: int
    infinity: int | None = None

    def value(self, code: int) -> float:
        """The number that a positive finite code stands for."""
        exponent, fraction = divmod(code, 1 << self.mantissa)
        unit = 2.0 ** (max(exponent, 1) - self.bias - self.mantissa)
        return (fraction + (1 << self.mantissa if exponent else 0)) * unit


# OCP 8-bit floating point specification 1.0 (E4M3FN, E5M2); IEEE P3109's finite formats with unsigned zero (FNUZ).
FORMATS = {
    Element.F16: FloatFormat(10, 15, 0x7BFF, 0x7E00, 0x7C00),
    Element.BF16: FloatFormat(7, 127, 0x7F7F, 0x7FC0, 0x7F80),
    Element.F8E4M3FN: FloatFormat(3, 7, 0x7E, 0x7F),
    Element.F8E5M2: FloatFormat(2, 15, 0x7B, 0x7F, 0x7C),
    Element.F8E4M3FNUZ: FloatFormat(3, 8, 0x7F, 0x80),
    Element.F8E5M2FNUZ: FloatFormat(2, 16, 0x7F, 0x80),
}


def encode_f8(value: float, element: Element) -> int:
    """The bits of the 8-bit float next to `value`, ties to even."""
    form = FORMATS[element]
    sign = 0x80 if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value):
        return form.nan | sign
    codes = [form.value(code) for code in range(form.largest + 1)]
    size = min(abs(value), codes[-1])
    above = bisect.bisect_left(codes, size)
    below = max(above - 1, 0)
    gaps = (size - codes[below], codes[above] - size)
    code = below if gaps[0] < gaps[1] or (gaps[0] == gaps[1] and below % 2 == 0) else above
    return code | sign if code or form.nan != 0x80 else 0


@functools.cache
def sections() -> tuple[tuple[frozenset[str], str], ...]:
    """C++ functions on KS_W lanes, by name, in terms of the templates: `ks_widen_*`, `ks_narrow_*`, `ks_truncate_*`."""
    return tuple((frozenset({name}), text + "\n") for name, text in _functions())


def _functions() -> Iterator[tuple[str, str]]:
    for element, form in FORMATS.items():
        shape = f"{form.mantissa}, {form.bias}"
        largest = (form.largest << (23 - form.mantissa)) + ((127 - form.bias) << 23)
        name = f"ks_truncate_{element.value}"
        yield name, f"KS_INLINE vf32 {name}(vf32 x) {{ return ks_truncate<{shape}, {largest:#x}u>(x); }}"
        if not element.is_f8:
            continue
        name = f"ks_widen_{element.value}"
        infinity = form.infinity or form.largest + 1
        yield name, f"KS_INLINE vf32 {name}(vi8 x) {{ return ks_widen_f8<{shape}, {infinity}, {form.nan}>(x); }}"
        for name, ceiling in (("ks_narrow_", form.largest), ("ks_keep_", form.infinity or form.largest)):
            name += element.value
            yield name, f"KS_INLINE vi8 {name}(vf32 x) {{ return ks_narrow_f8<{shape}, {ceiling}, {form.nan}>(x); }}"
