"""Offsets as they would be if no integer wrapped: the other side of a checked build's comparison.

Sums, differences and products of integers narrower than 64 bits are computed once more in 64 bits, from the last
values that came from anywhere else. Used by `checking`.
"""

from __future__ import annotations

from kernelsmith.triton_cpu import affine
from kernelsmith.triton_cpu.evaluate import evaluate
from kernelsmith.triton_cpu.ir import Element, Op, Type, Value
from kernelsmith.triton_cpu.loop import Index, Loop
from kernelsmith.triton_cpu.reps import ZERO, Linear, Rep, Uniform

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
            index = _source_index(op, index)
        pointer = op.operands[0]


def _may_wrap(loop: Loop, value: Value) -> bool:
    """Whether narrow arithmetic on more than constants went into the value."""
    seen: set[Value] = set()
    stack = [value]
    while stack:
        op = loop.scope.definition(current := stack.pop())
        if current in seen or op is None:
            continue
        seen.add(current)
        if op.name in _ARITHMETIC and current.type.element.bits < 64 and not current.type.is_predicate:
            if not _is_small(loop, current):
                return True
        elif op.name in (*_MOVES, *_EXTENSIONS, *_ARITHMETIC):
            stack.extend(op.operands)
    return False


def _is_small(loop: Loop, value: Value) -> bool:
    """True for a sum or product of ranges and constants, which a block's indices are."""
    op = loop.scope.definition(value)
    if op is None:
        return False
    if op.name in (*_ARITHMETIC, *_MOVES):
        return all(_is_small(loop, operand) for operand in op.operands)
    return op.name in ("tt.make_range", "arith.constant")


def _source_index(op: Op, index: Index) -> Index:
    """Where the operand of a move is read for the result's `index`."""
    if op.name == "tt.splat":
        return ()
    if op.name == "tt.expand_dims":
        axis = op.integer("axis")
        return index[:axis] + index[axis + 1 :]
    shape = op.operands[0].type.shape
    return tuple(ZERO if size == 1 else at for at, size in zip(index, shape, strict=True))


def _exact(loop: Loop, value: Value, index: Index, *, signed: bool) -> Rep:
    op = loop.scope.definition(value)
    kept = value in loop.scope.arrays or value in loop.scope.shifted
    if op is not None and not kept and not value.type.is_predicate:
        if op.name in _ARITHMETIC:
            return _sum(loop, op, index, signed=signed)
        if op.name in _MOVES:
            return _exact(loop, op.operands[0], _source_index(op, index), signed=signed)
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
