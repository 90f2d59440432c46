"""Offsets as they would be if no integer wrapped: the other side of a checked build's comparison.

Sums, differences and products of integers narrower than 64 bits are computed once more in 64 bits, from the last
values that came from anywhere else. Used by `checking`.
"""

from __future__ import annotations

from kernelsmith.triton_cpu.emit import affine
from kernelsmith.triton_cpu.emit.evaluate import evaluate
from kernelsmith.triton_cpu.emit.loop import Index, Loop
from kernelsmith.triton_cpu.emit.moves import MOVES
from kernelsmith.triton_cpu.emit.reps import Linear, Rep, Uniform
from kernelsmith.triton_cpu.read.ir import Element, Op, Type, Value

_WIDE = Type(Element.I64)
_ARITHMETIC = ("arith.addi", "arith.subi", "arith.muli")
_MOVES = ("tt.splat", "tt.broadcast", "tt.expand_dims")
_EXTENSIONS = ("arith.extsi", "arith.extui")


def offsets(loop: Loop, pointer: Value, index: Index) -> list[tuple[Rep, Rep, Type]]:
    """Each offset on the way to a pointer that may have wrapped: as computed, as it should be, and its type."""
    found: list[tuple[Rep, Rep, Type]] = []
    while True:
        if pointer in loop.scope.arrays:
            return found
        op = loop.scope.definition(pointer)
        if op is None or op.name not in ("tt.addptr", *_MOVES):
            return found
        if op.name == "tt.addptr":
            offset = op.operands[1]
            if _may_wrap(loop, offset):
                found.append((evaluate(loop, offset, index), _exact(loop, offset, index, signed=True), offset.type))
        else:
            index = MOVES[op.name](loop, op, op.result, index)
        pointer = op.operands[0]


def _may_wrap(loop: Loop, value: Value) -> bool:
    """Whether narrow arithmetic went into a value, on more than the ranges and constants of a block's indices."""
    seen: set[tuple[Value, bool]] = set()
    stack = [(value, False)]
    while stack:
        current, narrow = item = stack.pop()
        op = loop.scope.definition(current)
        if item in seen:
            continue
        seen.add(item)
        if op is not None and op.name in (*_ARITHMETIC, *_MOVES):
            counts = op.name in _ARITHMETIC and current.type.element.bits < 64 and not current.type.is_predicate
            stack.extend((operand, narrow or counts) for operand in op.operands)
        elif narrow and (op is None or op.name not in ("tt.make_range", "arith.constant")):
            return True
        elif op is not None and op.name in _EXTENSIONS:
            stack.extend((operand, False) for operand in op.operands)
    return False


def _exact(loop: Loop, value: Value, index: Index, *, signed: bool) -> Rep:
    key = (value, index, signed)
    if key not in loop.exact:
        loop.exact[key] = _compute(loop, value, index, signed=signed)
    return loop.exact[key]


def _compute(loop: Loop, value: Value, index: Index, *, signed: bool) -> Rep:
    op = loop.scope.definition(value)
    kept = value in loop.scope.arrays or value in loop.scope.shifted
    if op is not None and not kept and not value.type.is_predicate:
        if op.name in _ARITHMETIC:
            return _sum(loop, op, index, signed=signed)
        if op.name in _MOVES:
            return _exact(loop, op.operands[0], MOVES[op.name](loop, op, op.result, index), signed=signed)
        if op.name in _EXTENSIONS and not op.operands[0].type.is_predicate:
            return _exact(loop, op.operands[0], index, signed=op.name == "arith.extsi")
        if op.name == "arith.constant":
            signed = True  # x - 1 is x + -1 for unsigned numbers too
    return _widened(loop, evaluate(loop, value, index), value.type, signed=signed)


def _sum(loop: Loop, op: Op, index: Index, *, signed: bool) -> Rep:
    a, b = (_exact(loop, operand, index, signed=signed) for operand in op.operands)
    rep = affine.combine(loop, op.name, _WIDE, a, b)
    if rep is not None:
        return rep
    sign = {"arith.addi": "+", "arith.subi": "-", "arith.muli": "*"}[op.name]
    left, right = (f"(vu64)({loop.as_vector(rep, _WIDE)})" for rep in (a, b))
    return loop.vector(_WIDE, f"(vi64)({left} {sign} {right})", "exact")


def _widened(loop: Loop, rep: Rep, kind: Type, *, signed: bool) -> Rep:
    bits = kind.element.bits
    cast = "" if signed else f"(u{bits})"
    if isinstance(rep, Uniform):
        code = rep.code if rep.code.lstrip("-").isdigit() else f"((i64){cast}{rep.code})"
        return Uniform(loop.scalar(_WIDE, code, "exact"))
    if bits == 64:
        return rep
    if isinstance(rep, Linear):
        wide = affine.resize(loop, kind, _WIDE, rep, signed=signed)
        if wide is not None:
            return wide
    lanes = loop.as_vector(rep, kind)
    lanes = lanes if signed else f"(vu{bits})({lanes})"
    return loop.vector(_WIDE, f"__builtin_convertvector({lanes}, vi64)", "exact")
