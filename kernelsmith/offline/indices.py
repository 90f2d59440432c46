"""What is known of a kernel's values without running it: program numbers, sizes, loop counters, and the addresses and
masks that are made of them. Floats, and whatever is loaded, are unknown.

Invariant: pure arithmetic on numpy arrays of int64 (addresses, integers) or bool; an operation without a rule, or with
an unknown operand, is unknown. Read by `count`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kernelsmith.triton_cpu.read.ir import Dense, Op, Type

Known = npt.NDArray[Any]
"""int64 or bool, of the shape of the value's type."""

_COMPARE: dict[str, Callable[[Known, Known], Known]] = {
    **dict.fromkeys(("slt", "ult"), np.less),
    **dict.fromkeys(("sle", "ule"), np.less_equal),
    **dict.fromkeys(("sgt", "ugt"), np.greater),
    **dict.fromkeys(("sge", "uge"), np.greater_equal),
    "eq": np.equal,
    "ne": np.not_equal,
}


def _shifted(left: bool) -> Callable[[Known, Known], Known]:
    shift = np.left_shift if left else np.right_shift
    return lambda a, b: shift(a, np.clip(b, 0, 63))


def _divided(a: Known, b: Known) -> Known:
    """Towards zero, as arith.divsi; by zero, which is undefined there, zero."""
    quotient = np.abs(a) // np.maximum(np.abs(b), 1)
    return np.where(b == 0, 0, np.sign(a) * np.sign(b) * quotient)


def _rest(a: Known, b: Known) -> Known:
    return np.where(b == 0, 0, a - _divided(a, b) * b)


_BINARY: dict[str, Callable[[Known, Known], Known]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    **dict.fromkeys(("arith.divsi", "arith.divui"), _divided),
    **dict.fromkeys(("arith.remsi", "arith.remui"), _rest),
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.shli": _shifted(left=True),
    **dict.fromkeys(("arith.shrsi", "arith.shrui"), _shifted(left=False)),
    **dict.fromkeys(("arith.minsi", "arith.minui"), np.minimum),
    **dict.fromkeys(("arith.maxsi", "arith.maxui"), np.maximum),
}
_SAME = frozenset(
    {"arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "tt.ptr_to_int", "tt.int_to_ptr", "tt.bitcast"}
)
"""What keeps the number, as far as addresses go."""


def known_result(op: Op, values: Sequence[Known | None]) -> Known | None:
    """The one result of an operation on numbers; None where it cannot be told."""
    kind = op.results[0].type
    match op.name:
        case "arith.constant":
            return _constant(op.attributes.get("value"), kind)
        case "tt.make_range":
            return np.arange(op.integer("start"), op.integer("end"), dtype=np.int64)
        case "tt.addptr":
            return _advanced(values, kind)
        case "arith.select":
            return _selected(values)
    if any(value is None for value in values) or not values:
        return None
    whole = [value for value in values if value is not None]
    if op.name == "arith.cmpi" and op.words:
        compare = _COMPARE.get(op.words[0])
        return None if compare is None else compare(whole[0], whole[1])
    if op.name in _BINARY and len(whole) == 2:
        return _wrapped(_BINARY[op.name](whole[0], whole[1]), kind)
    if op.name in _SAME:
        return _wrapped(whole[0], kind)
    return _moved(op, whole[0], kind)


def _constant(value: object, kind: Type) -> Known | None:
    if not isinstance(value, Dense) or not kind.is_integer:
        return None
    bits = np.array([_signed(number, kind) for number in value.bits], dtype=np.int64)
    found = np.broadcast_to(bits[0], kind.shape) if len(bits) == 1 else bits.reshape(kind.shape)
    return found.astype(bool) if kind.is_predicate else found


def _signed(number: int, kind: Type) -> int:
    half = 1 << (kind.element.bits - 1)
    return number - 2 * half if number >= half and kind.element.bits > 1 else number


def _wrapped(value: Known, kind: Type) -> Known:
    """In the width of the type: 32-bit offsets wrap as they do on a device."""
    if kind.pointer or kind.element.bits == 64:
        return value
    if kind.is_predicate:
        return (value & 1).astype(bool)
    bits = kind.element.bits
    return ((value.astype(np.int64) + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1))


def _advanced(values: Sequence[Known | None], kind: Type) -> Known | None:
    pointer, offset = values
    if pointer is None or offset is None:
        return None
    return pointer + offset.astype(np.int64) * kind.element.bytes


def _selected(values: Sequence[Known | None]) -> Known | None:
    condition, a, b = values
    if a is None or b is None:
        return None
    return None if condition is None else np.where(condition.astype(bool), a, b)


def _moved(op: Op, value: Known, kind: Type) -> Known | None:
    match op.name:
        case "tt.splat" | "tt.broadcast":
            return np.broadcast_to(value, kind.shape)
        case "tt.expand_dims":
            return np.expand_dims(value, op.integer("axis"))
        case "tt.reshape":
            return value.reshape(kind.shape)
        case "tt.trans":
            return value.transpose(op.order)
        case "tt.unsplat":
            return value.reshape(-1)[0:1].reshape(())
    return None
