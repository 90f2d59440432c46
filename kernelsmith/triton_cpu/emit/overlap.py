"""What the loop of a store may load on the way, although the memory it writes may be what it reads.

A load from the very offsets that are written is safe where both start from one address: each element is read before it
is overwritten. Where two arguments differ, only the addresses can tell. If they are less than a tile apart, the load
happens first, into a snapshot that the loop then reads instead; so there is one copy of the loop either way. Called by
`statements`.
"""

from __future__ import annotations

from typing import NamedTuple

from kernelsmith.triton_cpu.emit.evaluate import by_definition, evaluate, materialise
from kernelsmith.triton_cpu.emit.loop import Loop
from kernelsmith.triton_cpu.emit.memory import Snapshot, write_array
from kernelsmith.triton_cpu.emit.nest import emit_nest
from kernelsmith.triton_cpu.emit.reps import ZERO, Uniform, uniform_code
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.read.ir import Dense, Op, Value

_MOVES = ("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims")
_SUMS = ("arith.addi", "arith.subi", "arith.muli", "arith.extsi", "arith.extui", *_MOVES)


class Bases(NamedTuple):
    """The arguments that a load and a store with the same offsets start from."""

    load: Value
    store: Value


def bases(scope: Scope, load: Value, store: Value) -> Bases | None:
    """Where two pointer tensors start that are the same but for that; None if they differ otherwise."""
    while load is not store:
        first, second = scope.definition(load), scope.definition(store)
        if first is None or second is None:
            both = _is_argument(scope, load) and _is_argument(scope, store)
            return Bases(load, store) if first is second and both else None
        if first.name != second.name or first.operands[1:] != second.operands[1:]:
            return None
        if load.type.shape != store.type.shape or first.name not in _MOVES:
            return None
        sizes = first.operands[0].type.element.bytes, store.type.element.bytes
        if first.integer("axis") != second.integer("axis") or sizes[0] != sizes[1]:
            return None
        load, store = first.operands[0], second.operands[0]
    return Bases(load, store)


def _is_argument(scope: Scope, value: Value) -> bool:
    functions = scope.module.functions.values()
    return not value.type.shape and any(value in function.arguments for function in functions)


def keep_apart(scope: Scope, store: Op, loads: dict[Op, Bases]) -> None:
    """Prepare loads with a store's own offsets so that its loop may execute them."""
    others = {load: ends for load, ends in loads.items() if ends.load is not ends.store}
    pointer = store.operands[0]
    if not others:
        return
    if scope.checked or not _is_affine(scope, pointer):
        for load in others:
            materialise(scope, load.result)
        return
    for value in scope.uses.kept_below([value for load in others for value in load.operands], set(scope.arrays)):
        materialise(scope, value)
    span, near = scope.fresh("span"), scope.fresh("near")
    scope.write(f"const u64 {span} = {_span(scope, pointer)};")
    pairs = dict.fromkeys((scope.scalars[ends.load], scope.scalars[ends.store]) for ends in others.values())
    scope.write(f"const bool {near} = {' || '.join(f'ks_near({a}, {b}, {span})' for a, b in pairs)};")
    snapshots = {load: Snapshot(near, scope.array(load.result.type, load.result.name)) for load in others}

    def body(loop: Loop) -> None:
        for load, snapshot in snapshots.items():
            rep = by_definition(loop, load, load.result, loop.index)
            write_array(loop, snapshot.array, load.result.type, loop.index, rep)

    with scope.region(f"if (__builtin_expect({near}, 0)) {{"):
        emit_nest(scope, pointer.type.shape, body, vectors=False)  # short code, for what hardly ever runs
    scope.snapshots.update(snapshots)


def _span(scope: Scope, pointer: Value) -> str:
    """How many bytes lie between the ends of what pointers that are linear in every index point to."""
    shape = pointer.type.shape
    start = (ZERO,) * len(shape)
    probe = Loop(scope, shape, start, full=False, x=None)
    first = uniform_code(evaluate(probe, pointer, start))
    parts = [str(pointer.type.element.bytes)]
    for axis, size in enumerate(shape):
        if size > 1:
            index = (*start[:axis], Uniform(str(size - 1)), *start[axis + 1 :])
            parts.append(f"ks_distance({first}, {uniform_code(evaluate(probe, pointer, index))})")
    scope.write(*probe.body)
    return " + ".join(parts)


def _is_affine(scope: Scope, value: Value) -> bool:
    """Whether a tensor is a sum of multiples of its indices."""
    if not value.type.shape or value in scope.arrays:
        return not value.type.shape
    if value in scope.shifted:
        return _is_affine(scope, scope.shifted[value][0])
    op = scope.definition(value)
    if op is None:
        return False
    if op.name == "arith.muli" and not any(_is_constant(scope, operand) for operand in op.operands):
        return False
    if op.name == "tt.make_range" or _is_constant(scope, value):
        return True
    return op.name in _SUMS and all(_is_affine(scope, operand) for operand in op.operands)


def _is_constant(scope: Scope, value: Value) -> bool:
    """Whether all elements of a tensor are one."""
    op = scope.definition(value)
    while op is not None and op.name in ("tt.broadcast", "tt.expand_dims"):
        op = scope.definition(op.operands[0])
    if op is None or op.name == "tt.splat":
        return op is not None
    elements = op.attributes.get("value")
    return op.name == "arith.constant" and isinstance(elements, Dense) and len(elements.bits) == 1
