"""Operations that triton-ascend's front end prints and Triton's does not, told in Triton's own.

Invariant: what comes out is of Triton's dialects only, so that later stages know nothing of this. Called by the parser
for every operation.
"""

from __future__ import annotations

from kernelsmith.triton_cpu.errors import TtirError
from kernelsmith.triton_cpu.read.ir import Dense, Element, Op, Type, Value

EXACT = {"tt.mod": "arith.remf"}
"""The same under another name."""
_HINT = "tt.annotation"
"""What a compiler may like to know of a value."""


def in_triton(op: Op) -> tuple[Op, ...]:
    """The operation itself, or what it stands for."""
    if op.name == _HINT:
        return ()
    return _flipped(op) if op.name == "tt.flip" else (op,)


def _flipped(op: Op) -> tuple[Op, ...]:
    """`tt.flip %x, axis`: the block's elements in reverse order along an axis."""
    (value,), shape = op.operands, op.result.type.shape
    axis = int(op.words[0]) if op.words and op.words[0].isdecimal() else len(shape)
    if axis >= len(shape) or value.type != op.result.type:
        raise TtirError(f"tt.flip of {value.type} along {' '.join(op.words)} cannot give {op.result.type}")
    size, ops = shape[axis], list[Op]()

    def made(name: str, kind: tuple[int, ...], *operands: Value, **attributes: int | Dense) -> Value:
        ops.append(Op(name, operands, (Value(name, Type(Element.I32, kind)),), attributes, location=op.location))
        return ops[-1].result

    last = made("arith.constant", (size,), value=Dense((size - 1,)))
    index = made("arith.subi", (size,), last, made("tt.make_range", (size,), start=0, end=size))
    flat: tuple[int, ...] = (size,)
    for other in [n for n in range(len(shape)) if n != axis]:
        flat = (*flat[:other], 1, *flat[other:])
        index = made("tt.expand_dims", flat, index, axis=other)
    index = made("tt.broadcast", shape, index) if flat != shape else index
    return (*ops, Op("tt.gather", (value, index), op.results, {"axis": axis}, location=op.location))
