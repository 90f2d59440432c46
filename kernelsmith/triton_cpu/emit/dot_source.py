"""Where a matrix product finds its operands: right in the caller's memory, or in an array filled first.

A load that feeds nothing but the product need not become an array: where all of its masks hold and its addresses are
linear in both dimensions, which is known when the tile's turn comes, the product reads (or packs) from where it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernelsmith.triton_cpu.emit import affine
from kernelsmith.triton_cpu.emit.atomics import is_volatile
from kernelsmith.triton_cpu.emit.evaluate import by_definition, evaluate, materialise
from kernelsmith.triton_cpu.emit.loop import Index, Loop
from kernelsmith.triton_cpu.emit.memory import write_array
from kernelsmith.triton_cpu.emit.moves import transposed
from kernelsmith.triton_cpu.emit.names import array_element, vector_type
from kernelsmith.triton_cpu.emit.nest import emit_nest
from kernelsmith.triton_cpu.emit.reps import ZERO, Linear, Rep, Uniform
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.read.ir import Dense, Element, Op, Type, Value

Stride = int | str


@dataclass(frozen=True)
class Matrix:
    """Element (i, j) lies `strides[0] * i + strides[1] * j` elements behind `pointer`, a `char *` expression."""

    pointer: str
    strides: tuple[Stride, Stride]


@dataclass(frozen=True)
class Plane:
    """A load's matrix in the caller's memory, good where the C++ condition `whole` holds."""

    matrix: Matrix
    whole: str


def locate(scope: Scope, operand: Value, stored: Element, batch: Index) -> Matrix:
    """Emit what it takes to have the last two dimensions of `operand`, as elements of type `stored`, in memory.

    `batch` is the index in the dimensions before them. One of the strides is 1.
    """
    load = _sole_load(scope, operand)
    if load is None and array_element(operand.type) is stored:
        return _part(scope, operand, batch)
    # In a checked build every access goes the way that is checked.
    plane = _plane(scope, operand, load, batch) if load is not None and not scope.checked else None
    down = plane is not None and plane.matrix.strides[0] == 1 and plane.matrix.strides[1] != 1
    home = scope.array(Type(stored, operand.type.shape[-2:]), operand.name)
    rows, columns = operand.type.shape[-2:]
    filled = Matrix(home, (1, rows) if down else (columns, 1))
    in_place = plane is not None and operand.type.element is stored and 1 in plane.matrix.strides
    if plane is None or not in_place:
        _fill(scope, operand, stored, home, batch, down=down)
        return filled
    pointer, other = scope.fresh("tile"), scope.fresh("stride")
    scope.write(f"const char *{pointer} = {plane.matrix.pointer};")
    scope.write(f"i64 {other} = {plane.matrix.strides[1 if down else 0]};")
    with scope.region(f"if (!({plane.whole})) {{"):
        _fill(scope, operand, stored, home, batch, down=down)
        scope.write(f"{pointer} = {home};", f"{other} = {rows if down else columns};")
    return Matrix(pointer, (1, other) if down else (other, 1))


def _part(scope: Scope, operand: Value, batch: Index) -> Matrix:
    """The array that holds all of an operand, from this batch on."""
    name = materialise(scope, operand)
    rows, columns = operand.type.shape[-2:]
    loop = Loop(scope, (), (), full=False, x=None)
    start = affine.flatten(loop, batch, operand.type.shape[:-2])
    scope.write(*loop.body)
    size = rows * columns * array_element(operand.type).bytes
    pointer = name if start == ZERO or not isinstance(start, Uniform) else f"{name} + {size} * (i64){start.code}"
    return Matrix(pointer, (columns, 1))


def _fill(scope: Scope, operand: Value, stored: Element, home: str, batch: Index, *, down: bool) -> None:
    """Put a matrix into an array of its own, converted; `down`: the other way round, as it lies in memory."""
    rows, columns = operand.type.shape[-2:]
    kind = Type(stored, (columns, rows) if down else (rows, columns))

    def body(loop: Loop) -> None:
        op = scope.definition(operand)
        index = (*batch, *loop.index)
        known = operand in scope.arrays or operand in scope.shifted or op is None
        rep = evaluate(loop, operand, index) if known or op is None else by_definition(loop, op, operand, index)
        i, j = loop.index
        write_array(loop, home, kind, (j, i) if down else (i, j), _converted(loop, rep, operand.type, kind))

    along = 0 if down and rows % scope.isa.lanes == 0 else None
    emit_nest(scope, (rows, columns), body, along=along, vectors=along is not None or not down)


def _converted(loop: Loop, rep: Rep, source: Type, target: Type) -> Rep:
    writer, vector = loop.scope.writer, not isinstance(rep, Uniform)
    code = rep.code if isinstance(rep, Uniform) else loop.as_vector(rep, source)
    if source.is_float:
        code = writer.resize_float(code, source.element, target.element, vector)
    elif source.element is not target.element:
        code = f"ks_convert<{vector_type(target)}>({code})" if vector else f"({target.element.value}){code}"
    return loop.vector(target, code) if vector else Uniform(code)


# ---- loads that can be read in place ----


def _sole_load(scope: Scope, operand: Value) -> Op | None:
    """The load that an operand is, but for transpositions, if nobody else uses it and its time has not come."""
    value = operand
    while len(scope.uses.users.get(value, ())) == 1 and value not in scope.arrays:
        op = scope.definition(value)
        if op is None or op.name not in ("tt.load", "tt.trans"):
            return None
        if op.name == "tt.load":
            return None if is_volatile(op) else op
        value = op.operands[0]
    return None


def _plane(scope: Scope, operand: Value, load: Op, batch: Index) -> Plane | None:
    """Look along the first row and the first column: where addresses and masks are made of one part for each
    dimension, these two say everything."""
    if any(_varies(scope, value) is None for value in load.operands[:2]):
        return None
    column, row = (*batch, Linear("0", 1), ZERO), (*batch, ZERO, Linear("0", 1))
    probes = [_probe(scope, load, _at(scope, operand, load, index)) for index in (column, row)]
    if probes[0] is None or probes[1] is None:
        return None
    (start, down, first), (_, along, second) = probes[0], probes[1]
    conditions = [condition for condition in (first, second) if condition]
    return Plane(Matrix(start, (down, along)), " && ".join(conditions) or "true")


def _at(scope: Scope, operand: Value, load: Op, index: Index) -> Index:
    """The load's own index for an index of the operand, which may be its transposition."""
    value = operand
    while value is not load.result:
        transposition = scope.definition(value)
        assert transposition is not None
        index, value = transposed(transposition, index), transposition.operands[0]
    return index


def _probe(scope: Scope, load: Op, index: Index) -> tuple[str, Stride, str] | None:
    """Start, stride and condition of a load along the one dimension in which `index` is linear."""
    loop = Loop(scope, load.result.type.shape, index, full=True, x="0")
    mask = evaluate(loop, load.operands[1], index) if len(load.operands) > 1 else Uniform("true")
    place = evaluate(loop, load.operands[0], index)
    if loop.body or not isinstance(mask, Uniform):
        return None
    scope.write(*loop.pre)
    conditions = [f"{limit} >= {loop.extent}" for limit in loop.limits]
    if mask.code != "true":
        conditions.append(mask.code)
    if isinstance(place, Uniform):
        return place.code, 0, " && ".join(conditions)
    return (place.base, place.stride, " && ".join(conditions)) if isinstance(place, Linear) else None


_SUMS = frozenset({"tt.addptr", "arith.addi", "arith.subi", "arith.andi", "arith.extsi", "arith.extui", "arith.trunci"})


def _varies(scope: Scope, value: Value) -> frozenset[int] | None:
    """Dimensions that a tensor of addresses or masks depends on, if it is made of one part for each of them."""
    long = frozenset(number for number, size in enumerate(value.type.shape) if size > 1)
    if len(long) <= 1:
        return long
    if value in scope.shifted:
        return _varies(scope, scope.shifted[value][0])
    op = scope.definition(value)
    if op is None or value in scope.arrays:
        return None
    if op.name == "arith.constant":
        dense = op.attributes["value"]
        return frozenset() if isinstance(dense, Dense) and len(dense.bits) == 1 else None
    if op.name == "tt.splat":
        return frozenset()
    if op.name == "tt.broadcast":
        return _varies(scope, op.operands[0])
    if op.name == "tt.expand_dims":
        inner, axis = _varies(scope, op.operands[0]), op.integer("axis")
        return inner and frozenset(number + (number >= axis) for number in inner)
    if not op.name.startswith("arith.") and op.name not in _SUMS:
        return None
    parts = [_varies(scope, operand) for operand in op.operands]
    if None in parts:
        return None
    union = frozenset[int]().union(*(part for part in parts if part is not None))
    scaled = op.name == "arith.muli" and frozenset() in parts
    return union if op.name in _SUMS or scaled or len(union) <= 1 else None
