"""Operations that only move elements: where they read their operand for what their result has at an index.

Used by `evaluate`, and by `exact`, which follows the same moves in other arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelsmith.triton_cpu.emit import affine
from kernelsmith.triton_cpu.emit.loop import Index, Loop
from kernelsmith.triton_cpu.emit.reps import ZERO, Uniform
from kernelsmith.triton_cpu.read.ir import Op, Value


def _splat(loop: Loop, op: Op, value: Value, index: Index) -> Index:
    return ()


def _unsplat(loop: Loop, op: Op, value: Value, index: Index) -> Index:
    return (ZERO,) * len(op.operands[0].type.shape)


def _expand_dims(loop: Loop, op: Op, value: Value, index: Index) -> Index:
    axis = op.integer("axis")
    return index[:axis] + index[axis + 1 :]


def _broadcast(loop: Loop, op: Op, value: Value, index: Index) -> Index:
    return tuple(ZERO if size == 1 else at for at, size in zip(index, op.operands[0].type.shape, strict=True))


def _reshape(loop: Loop, op: Op, value: Value, index: Index) -> Index:
    shape = op.operands[0].type.shape
    if [size for size in shape if size > 1] == [size for size in value.type.shape if size > 1]:
        rest = (at for at, size in zip(index, value.type.shape, strict=True) if size > 1)
        return tuple(next(rest) if size > 1 else ZERO for size in shape)
    return affine.unflatten(loop, affine.flatten(loop, index, value.type.shape), shape)


def _split(loop: Loop, op: Op, value: Value, index: Index) -> Index:
    return (*index, Uniform(str(op.results.index(value))))


def transposed(op: Op, index: Index) -> Index:
    """Where the operand of a tt.trans has what its result has at `index`."""
    order = op.order
    moved = dict(zip(order, index, strict=True))
    return tuple(moved[number] for number in range(len(order)))


MOVES: dict[str, Callable[[Loop, Op, Value, Index], Index]] = {
    "tt.splat": _splat,
    "tt.unsplat": _unsplat,
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    "tt.reshape": _reshape,
    "tt.split": _split,
}
