"""From an SSA value and an index to code: the lazy half of the compiler.

`evaluate` walks a value's definition backwards and emits into the current loop whatever it takes to have the elements
at `index`, once per loop. A value that has an array is read from it; a value that is to have one gets it on the way,
if the loop visits each of its elements exactly once, and in a loop of its own otherwise.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelsmith.triton_cpu.emit import affine
from kernelsmith.triton_cpu.emit.analysis import ELEMENTWISE
from kernelsmith.triton_cpu.emit.loop import Index, Loop, Varies
from kernelsmith.triton_cpu.emit.memory import (
    addresses,
    at_addresses,
    from_snapshot,
    load_lanes,
    read_array,
    read_constant,
    read_other_vector,
    swapped_lanes,
    write_array,
)
from kernelsmith.triton_cpu.emit.moves import MOVES, transposed
from kernelsmith.triton_cpu.emit.names import array_element, vector_type
from kernelsmith.triton_cpu.emit.nest import emit_nest
from kernelsmith.triton_cpu.emit.reps import ZERO, Digit, Linear, Rep, Uniform
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.emit.simplify import FLIP
from kernelsmith.triton_cpu.errors import UnsupportedConstruct, reason_for
from kernelsmith.triton_cpu.read.ir import Element, Op, Region, Type, Value

_I32 = Type(Element.I32)
_DIVISIONS = ("arith.divsi", "arith.remsi", "arith.divui", "arith.remui")


def evaluate(loop: Loop, value: Value, index: Index) -> Rep:
    """The form of `value` at `index`, which has one entry per dimension of the value."""
    scope = loop.scope
    known = loop.recall(value, index)
    if known is not None:
        return known
    if not value.type.shape and value in scope.scalars:
        return Uniform(scope.scalars[value])
    if value in scope.arrays:
        return loop.remember(value, index, read_array(loop, scope.arrays[value], value.type, index))
    if value in scope.shifted:
        return loop.remember(value, index, _shifted(loop, value, index))
    op = scope.definition(value)
    if op is None:
        raise UnsupportedConstruct(value.name, "the value is used outside the block that defines it")
    if value in scope.uses.arrays:
        if index != loop.index or loop.shape != value.type.shape:
            if loop.past is not None:
                raise Varies
            materialise(scope, value)
            return evaluate(loop, value, index)
        return loop.remember(value, index, _fuse(loop, op, value, index))
    return loop.remember(value, index, by_definition(loop, op, value, index))


def materialise(scope: Scope, value: Value) -> str:
    """Make sure a tensor has an array; returns its name."""
    if value not in scope.arrays:
        name = scope.planned.pop(value, "") or scope.array(value.type, value.name)
        op = scope.definition(value)
        if op is None or not _materialise_transposed(scope, op, value, name):
            emit_nest(scope, value.type.shape, lambda loop: _write_whole(loop, value, name, value.type, loop.index))
        scope.arrays[value] = name
    return scope.arrays[value]


def _write_whole(loop: Loop, value: Value, name: str, kind: Type, index: Index) -> None:
    """Compute a value in a loop of its own, and write it to `index` of an array of type `kind`."""
    op = loop.scope.definition(value)
    if value in loop.scope.shifted or op is None:
        rep = evaluate(loop, value, loop.index)
    else:
        rep = by_definition(loop, op, value, loop.index)
    write_array(loop, name, kind, index, rep)


def _materialise_transposed(scope: Scope, op: Op, value: Value, name: str) -> bool:
    """Fill a matrix's array from rows that are contiguous the other way round, by way of registers.

    Column by column, every element would be a load of its own.
    """
    if not _may_turn(scope, value.type):
        return False
    shape = rows, columns = value.type.shape
    if op.name == "tt.trans":
        source = materialise(scope, op.operands[0])
    elif op.name == "tt.load" and _contiguous_down(scope, op.operands[0]):
        flipped = value.type.with_shape((columns, rows))
        source = scope.array(flipped, value.name)

        def body(loop: Loop) -> None:
            _write_whole(loop, value, source, flipped, (loop.index[1], loop.index[0]))

        emit_nest(scope, shape, body, along=0)
    else:
        return False
    bits = 8 * array_element(value.type).bytes
    scope.write(f"ks_transpose<vu{bits}, {columns}, {rows}>({source}, {name});")
    return True


def _may_turn(scope: Scope, kind: Type) -> bool:
    """Whether there is a transposition in registers for arrays of this type."""
    whole = len(kind.shape) == 2 and all(size % scope.isa.lanes == 0 for size in kind.shape)
    return whole and not kind.pointer and array_element(kind).bytes in (2, 4)


def _contiguous_down(scope: Scope, pointer: Value) -> bool:
    """True if elements of one column follow each other in memory and those of one row do not."""

    def stride(index: Index) -> int | str | None:
        probe = Loop(scope, pointer.type.shape, index, full=True, x="0")
        rep = evaluate(probe, pointer, index)
        return rep.stride if isinstance(rep, Linear) else None

    down, along = (Linear("0", 1), ZERO), (ZERO, Linear("0", 1))
    return stride(down) == 1 and stride(along) != 1


def _fuse(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    scope = loop.scope
    rep = by_definition(loop, op, value, index)
    if loop.past is not None:
        if not isinstance(rep, Uniform):
            raise Varies
        loop.endings[value] = rep.code
        return rep
    if value in scope.arrays:  # a loop of its own became necessary on the way
        return rep
    if value not in scope.planned:
        scope.planned[value] = scope.array(value.type, value.name)
    write_array(loop, scope.planned[value], value.type, index, rep)
    loop.fused[value] = None
    return rep


def _shifted(loop: Loop, value: Value, index: Index) -> Rep:
    """A loop-carried tensor: what it was before the loop plus a scalar."""
    initial, offset = loop.scope.shifted[value]
    rep = evaluate(loop, initial, index)
    if value.type.pointer:
        return affine.advance(loop, rep, Uniform(offset), value.type, Type(Element.I64))
    return affine.integer_sum(loop, value.type, rep, Uniform(offset))


def by_definition(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    """Emit the operation that defines `value`, whether or not the value has a home already."""
    special = _SPECIAL.get(op.name)
    if special is not None:
        return special(loop, op, value, index)
    if op.name in MOVES:
        return evaluate(loop, op.operands[0], MOVES[op.name](loop, op, value, index))
    if not (op.name.startswith(("arith.", "math.")) or op.name in ELEMENTWISE):
        raise UnsupportedConstruct(op.name, reason_for(op.name), op.location)
    return _elementwise(loop, op, value, index)


def _elementwise(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    scope = loop.scope
    if op.name == "arith.select":
        return _select(loop, op, value, index)
    reps = [evaluate(loop, operand, index) for operand in op.operands]
    linear = _keep_form(loop, op, value, reps)
    if linear is not None:
        return linear
    kinds = [operand.type for operand in op.operands]
    divides = scope.checks if op.name in _DIVISIONS else None
    if all(isinstance(rep, Uniform) for rep in reps):
        codes = [rep.code for rep in reps if isinstance(rep, Uniform)]
        if divides is not None and not value.type.shape:
            codes[1] = divides.divisor(op, codes[1])
        return Uniform(
            loop.scalar(value.type.with_shape(()), scope.writer.elementwise(op, codes, kinds, vector=False), value.name)
        )
    codes = [loop.as_vector(rep, kind) for rep, kind in zip(reps, kinds, strict=True)]
    code = scope.writer.elementwise(op, codes, kinds, vector=True)
    if divides is not None:
        code = divides.quotient(loop, op, code, codes[1])
    return loop.vector(value.type, code, value.name)


def _keep_form(loop: Loop, op: Op, value: Value, reps: list[Rep]) -> Rep | None:
    """Linear and prefix forms that survive the operation."""
    kind = op.operands[0].type
    if kind.is_predicate and op.name == "arith.andi":
        return affine.both(loop, *reps)
    if not kind.is_integer or kind.is_predicate:
        return None
    if op.name in ("arith.addi", "arith.subi", "arith.muli"):
        return affine.combine(loop, op.name, kind.with_shape(()), *reps)
    if op.name in ("arith.divsi", "arith.remsi"):
        return affine.divide(loop, op.name, kind.with_shape(()), *reps)
    if op.name == "arith.cmpi":
        return affine.compare(loop, op, *reps)
    target = value.type.with_shape(())
    if op.name in ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast") and not target.is_predicate:
        rep = reps[0]
        if isinstance(rep, Linear):
            return affine.resize(loop, kind, target, rep, signed=op.name != "arith.extui")
        if rep in (ZERO, Uniform("1")):
            return rep
    return None


def _select(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    condition, yes, no = op.operands
    mask = evaluate(loop, condition, index if condition.type.shape else ())
    if mask in (Uniform("true"), Uniform("false")):
        return evaluate(loop, yes if mask == Uniform("true") else no, index)
    a, b = evaluate(loop, yes, index), evaluate(loop, no, index)
    if value.type.pointer:
        return _select_pointers(loop, mask, a, b, condition.type, value.type)
    if isinstance(mask, Uniform) and isinstance(a, Uniform) and isinstance(b, Uniform):
        return Uniform(loop.scalar(value.type.with_shape(()), f"{mask.code} ? {a.code} : {b.code}", value.name))
    chosen = mask.code if isinstance(mask, Uniform) else loop.as_vector(mask, condition.type)
    code = f"ks_select({chosen}, {loop.as_vector(a, value.type)}, {loop.as_vector(b, value.type)})"
    return loop.vector(value.type, code, value.name)


def _select_pointers(loop: Loop, mask: Rep, a: Rep, b: Rep, mask_kind: Type, kind: Type) -> Rep:
    if isinstance(mask, Uniform) and isinstance(a, Uniform) and isinstance(b, Uniform):
        return Uniform(loop.scalar(kind.with_shape(()), f"{mask.code} ? {a.code} : {b.code}", "p"))
    size = kind.element.bytes
    first, second = (addresses(loop, rep, size) for rep in (a, b))
    return at_addresses(loop, f"ks_select({loop.as_vector(mask, mask_kind)}, {first}, {second})")


def apply_region(loop: Loop, region: Region, arguments: list[Rep]) -> list[Rep]:
    """Evaluate a combiner's body on one or KS_W elements at a time."""
    block = region.entry
    for op in block.ops:
        for value in op.results:
            loop.in_body.pop((value, ()), None)
            loop.same_for_all_x.pop((value, ()), None)
    for value, rep in zip(block.arguments, arguments, strict=True):
        loop.in_body[(value, ())] = rep
    return [evaluate(loop, value, ()) for value in block.ops[-1].operands]


# ---- operations with a rule of their own ----


def _make_range(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    return affine.integer_sum(loop, _I32, index[0], Uniform(str(op.integer("start"))))


def _transpose(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    if _should_turn(loop, op, value, index):
        materialise(loop.scope, value)
        return evaluate(loop, value, index)
    return evaluate(loop, op.operands[0], transposed(op, index))


def _should_turn(loop: Loop, op: Op, value: Value, index: Index) -> bool:
    """Whether a matrix that the loop would read down its columns is better transposed first, in registers."""
    scope, source = loop.scope, op.operands[0]
    if not _may_turn(scope, value.type) or loop.past is not None or index[1] != Linear("0", 1):
        return False
    if source in scope.arrays or source in scope.uses.arrays:
        return True
    load = scope.definition(source)
    return load is not None and load.name == "tt.load" and not _contiguous_down(scope, load.operands[0])


def _flip(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    """The other of two neighbours along an axis (see `simplify`)."""
    source, axis = op.operands[0], op.integer("axis")
    at = index[axis]
    other: Rep
    if isinstance(at, Digit) and 2 * at.step <= loop.scope.isa.lanes:
        return swapped_lanes(loop, evaluate(loop, source, index), source.type, at.step)
    if isinstance(at, Digit) and affine.flatten(loop, index, source.type.shape) == Linear("0", 1):
        return read_other_vector(loop, materialise(loop.scope, source), source.type, at.step)
    if isinstance(at, Uniform):
        other = Uniform(loop.opposite(at.code))
    else:
        other = loop.position(_I32, f"1 - {loop.as_vector(at, _I32)}")
    return evaluate(loop, source, (*index[:axis], other, *index[axis + 1 :]))


def _join(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    a, b = (evaluate(loop, operand, index[:-1]) for operand in op.operands)
    which = index[-1]
    if isinstance(which, Uniform) and isinstance(a, Uniform) and isinstance(b, Uniform):
        return Uniform(loop.scalar(value.type.with_shape(()), f"{which.code} ? {b.code} : {a.code}", value.name))
    chosen = which.code + " != 0" if isinstance(which, Uniform) else f"ks_mask({loop.as_vector(which, _I32)} != 0)"
    code = f"ks_select({chosen}, {loop.as_vector(b, value.type)}, {loop.as_vector(a, value.type)})"
    return loop.vector(value.type, code, value.name)


def _gather(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    """Elements at computed indices; one out of range means the nearest, so that none reads foreign memory."""
    axis, kind = op.integer("axis"), op.operands[1].type
    where, last = evaluate(loop, op.operands[1], index), op.operands[0].type.shape[axis] - 1
    lanes = "" if isinstance(where, Uniform) else loop.vector(kind, loop.as_vector(where, kind), "where").code
    if loop.scope.checks is not None:
        loop.scope.checks.picks(loop, op, index, where, lanes)
    if isinstance(where, Uniform):
        where = Uniform(loop.scalar(_I32, f"(i32)ks_smaller<i64>(ks_larger<i64>({where.code}, 0), {last})"))
    else:
        wanted = vector_type(kind)
        last = min(last, (1 << (kind.element.bits - 1)) - 1)
        code = f"ks_smaller(ks_larger({lanes}, {wanted}{{}}), ks_splat<{wanted}>({last}))"
        where = loop.vector(_I32, code if kind.element is Element.I32 else f"ks_convert<vi32>({code})")
    return evaluate(loop, op.operands[0], (*index[:axis], where, *index[axis + 1 :]))


def _pair(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    """A reduction over an axis of two elements: both, combined where the result is used."""
    axis = op.integer("axis")
    places = [(*index[:axis], Uniform(position), *index[axis:]) for position in "01"]
    items = [evaluate(loop, operand, place) for place in places for operand in op.operands]
    return apply_region(loop, op.regions[0], items)[op.results.index(value)]


def _addptr(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    pointer, offset = op.operands
    reps = evaluate(loop, pointer, index), evaluate(loop, offset, index)
    return affine.advance(loop, *reps, value.type, offset.type)


def _load(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    checks = loop.scope.checks
    mask = evaluate(loop, op.operands[1], index) if len(op.operands) > 1 else Uniform("true")
    if mask == Uniform("false"):
        if checks is not None and len(op.operands) < 3:
            return checks.masked_off(loop, op)
        return evaluate(loop, op.operands[2], index) if len(op.operands) > 2 else ZERO
    pointer = evaluate(loop, op.operands[0], index)
    if checks is not None:
        return checks.load(loop, op, index, pointer, mask)
    if op in loop.scope.snapshots:
        pointer = from_snapshot(loop, pointer, loop.scope.snapshots[op], value.type)
    other = evaluate(loop, op.operands[2], index) if len(op.operands) > 2 and mask != Uniform("true") else ZERO
    return load_lanes(loop, value, pointer, mask, other)


def _pointer_cast(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    source = op.operands[0]
    rep = evaluate(loop, source, index)
    if op.name == "tt.int_to_ptr":
        if isinstance(rep, Uniform):
            return Uniform(loop.scalar(value.type.with_shape(()), f"(char *){rep.code}", "p"))
        return at_addresses(loop, loop.as_vector(rep, source.type))
    if isinstance(rep, Uniform):
        return Uniform(loop.scalar(value.type.with_shape(()), f"(i64){rep.code}"))
    return loop.vector(Type(Element.I64), addresses(loop, rep, source.type.element.bytes), "address")


def _bitcast(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    source = op.operands[0]
    if not source.type.pointer:
        return _elementwise(loop, op, value, index)
    rep = evaluate(loop, source, index)
    if isinstance(rep, Uniform) or source.type.element.bytes == value.type.element.bytes:
        return rep
    return at_addresses(loop, addresses(loop, rep, source.type.element.bytes))


def _program_id(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    word = op.words[0] if op.words else {0: "x", 1: "y", 2: "z"}.get(op.integer("axis"), "")
    if word not in ("x", "y", "z"):
        raise UnsupportedConstruct(op.name, "the grid has the axes x, y and z", op.location)
    prefix = "program_" if op.name == "tt.get_program_id" else "programs_"
    return Uniform(prefix + word)


def _poison(loop: Loop, op: Op, value: Value, index: Index) -> Rep:
    return Uniform("0")


_SPECIAL: dict[str, Callable[[Loop, Op, Value, Index], Rep]] = {
    "arith.constant": read_constant,
    "tt.make_range": _make_range,
    "tt.trans": _transpose,
    FLIP: _flip,
    "tt.join": _join,
    "tt.gather": _gather,
    "tt.reduce": _pair,
    "tt.addptr": _addptr,
    "tt.load": _load,
    "tt.int_to_ptr": _pointer_cast,
    "tt.ptr_to_int": _pointer_cast,
    "tt.bitcast": _bitcast,
    "arith.bitcast": _bitcast,
    "tt.get_program_id": _program_id,
    "tt.get_num_programs": _program_id,
    "ub.poison": _poison,
}
