"""Conversions of the type that Triton has and MLIR has not: fp8e4b15, which is a byte in TTIR.

fp8e4b15 has four exponent bits with a bias of 15, three mantissa bits and neither infinity nor NaN, so its bits are a
float16's from the sign on, but for the exponent's highest bit (`triton/language/extra/cuda/utils.py` says the same in
PTX). Called by Triton's front end while it reads a kernel; imported when the first kernel is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.language import core

_LARGEST = 0x3F00  # 1.75 as float16


def _convert(arg: Any, dst_ty: Any, fp_downcast_rounding: object = None, _semantic: Any = None) -> Any:
    """A tensor in another type, one of the two being fp8e4b15. Halves are rounded up; large numbers become 1.75."""
    if arg.dtype.is_fp8e4b15():
        return _widen(arg, _semantic).to(dst_ty.scalar, _semantic=_semantic)
    if not arg.dtype.is_fp16():
        single = arg.to(core.float32, _semantic=_semantic)
        arg = single.to(core.float16, fp_downcast_rounding="rtz", _semantic=_semantic)
    return _narrow(arg, _semantic)


convert_custom_types: Callable[..., Any] = core.builtin(_convert)


def _widen(arg: Any, semantic: Any) -> Any:
    code = arg.to(core.uint8, bitcast=True, _semantic=semantic).to(core.uint16, _semantic=semantic)
    size = semantic.shl(_and(code, 0x7F, semantic), _constant(7, semantic))
    sign = semantic.shl(_and(code, 0x80, semantic), _constant(8, semantic))
    return semantic.or_(size, sign).to(core.float16, bitcast=True, _semantic=semantic)


def _narrow(arg: Any, semantic: Any) -> Any:
    bits = arg.to(core.uint16, bitcast=True, _semantic=semantic)
    size = semantic.minimum(_and(bits, 0x7FFF, semantic), _constant(_LARGEST, semantic), core.PropagateNan.NONE)
    rounded = semantic.lshr(semantic.add(size, _constant(0x40, semantic), False), _constant(7, semantic))
    sign = semantic.lshr(_and(bits, 0x8000, semantic), _constant(8, semantic))
    code = semantic.or_(rounded, sign).to(core.uint8, _semantic=semantic)
    return code.to(core.float8e4b15, bitcast=True, _semantic=semantic)


def _constant(value: int, semantic: Any) -> Any:
    return semantic.scalar_constant(value, core.uint16)


def _and(value: Any, mask: int, semantic: Any) -> Any:
    return semantic.and_(value, _constant(mask, semantic))
