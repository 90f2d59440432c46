"""C++ spellings of types and constants."""

from __future__ import annotations

import math
import re
import struct

from kernelsmith.triton_cpu.read.ir import Element, Type

_UNSAFE = re.compile(r"\W", re.ASCII)
_LIMITS = {Element.I8: 8, Element.I16: 16, Element.I32: 32, Element.I64: 64}


def computed(element: Element) -> Element:
    """How values hold an element: 16-bit floats as float32, 8-bit floats as their bits."""
    return Element.F32 if element.is_half else stored(element)


def stored(element: Element) -> Element:
    """How memory and arrays hold an element: an 8-bit float is just a byte."""
    return Element.I8 if element.is_f8 else element


def scalar_type(kind: Type) -> str:
    """A scalar variable's type."""
    if kind.pointer:
        return "char *"
    return "bool" if kind.element is Element.I1 else computed(kind.element).value


def vector_type(kind: Type) -> str:
    """The type of KS_W elements; pointers are addresses."""
    if kind.pointer:
        return "vi64"
    return "vi32" if kind.element is Element.I1 else f"v{computed(kind.element).value}"


def array_element(kind: Type) -> Element:
    """How an array in scratch memory holds elements of this type."""
    return Element.I64 if kind.pointer else stored(kind.element)


def identifier(name: str) -> str:
    """A C++ identifier that resembles an SSA name."""
    clean = _UNSAFE.sub("_", name.lstrip("%"))[:40]
    return f"v{clean}" if not clean or clean[0].isdigit() else clean


def literal(bits: int, element: Element) -> str:
    """An exact literal for a bit pattern."""
    if element is Element.I1:
        return "true" if bits & 1 else "false"
    if element in _LIMITS or element.is_f8:
        value = bits - (1 << element.bits) if bits >> (element.bits - 1) else bits
        if element is Element.I64:
            return f"(i64){bits:#x}ul" if abs(value) > 1 << 31 else f"{value}l"
        return f"(i32){bits:#x}u" if value == -(1 << 31) else str(value)
    if element is Element.BF16:
        return _float_literal(struct.unpack("<f", struct.pack("<I", bits << 16))[0], bits << 16, Element.F32)
    if element is Element.F16:
        value = struct.unpack("<e", struct.pack("<H", bits))[0]
        return _float_literal(value, (bits & 0x8000) << 16 | 0x7FC00000 | (bits & 0x3FF) << 13, Element.F32)
    layout = ("<f", "<I") if element is Element.F32 else ("<d", "<Q")
    return _float_literal(struct.unpack(layout[0], struct.pack(layout[1], bits))[0], bits, element)


def _float_literal(value: float, nan_bits: int, element: Element) -> str:
    """`nan_bits` keeps a NaN's payload."""
    single = element is Element.F32
    if math.isnan(value):
        return f"ks_f32_of({nan_bits:#x}u)" if single else f"ks_f64_of({nan_bits:#x}ul)"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{'f' if single else ''}()"
    return value.hex() + ("f" if single else "")
