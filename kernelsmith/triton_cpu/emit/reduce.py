"""tt.reduce.

Well-known combiners accumulate in vectors inside the loop that computes their operand. Any other combiner (argmax,
Welford) works on arrays: lanes first, then the lanes among themselves, which is right for the associative and
commutative functions that tl.reduce asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelsmith.triton_cpu.emit.evaluate import apply_region, evaluate, materialise
from kernelsmith.triton_cpu.emit.loop import Index, Loop, Varies
from kernelsmith.triton_cpu.emit.memory import read_array, write_array
from kernelsmith.triton_cpu.emit.names import literal, scalar_type, vector_type
from kernelsmith.triton_cpu.emit.nest import Accumulator, Row, emit_nest, vector_dimension
from kernelsmith.triton_cpu.emit.reps import ZERO, Linear, Rep, Uniform, Vector, uniform_code
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.read.ir import Element, Op, Region, Type, Value

_NEGATIVE_ZERO = {Element.F32: "-0.0f", Element.F64: "-0.0", Element.F16: "-0.0f", Element.BF16: "-0.0f"}


@dataclass(frozen=True)
class Combiner:
    """A combiner of one operation: its identity and the helper that folds a vector's lanes.

    `fast` is a cheaper operation that ignores NaN the way maxnumf does, except that it never yields NaN and takes the
    zeros as equal.
    """

    op: Op
    identity: str
    fold: str
    fast: str | None = None


def known_combiner(region: Region, element: Element) -> Combiner | None:
    """The combiner if it is one operation on exactly the region's two arguments; none on 8-bit floats."""
    block = region.entry
    if (
        element.is_f8
        or len(block.ops) != 2
        or len(block.arguments) != 2
        or set(block.ops[0].operands) != set(block.arguments)
    ):
        return None
    op = block.ops[0]
    if block.ops[1].operands != op.results:
        return None
    name = op.name.partition(".")[2]
    infinity = "__builtin_inff()" if element is not Element.F64 else "__builtin_inf()"
    nan = '__builtin_nanf("")' if element is not Element.F64 else '__builtin_nan("")'
    if element.is_float:
        table = {
            "addf": (_NEGATIVE_ZERO[element], "add", None),
            "mulf": ("1.0f" if element is not Element.F64 else "1.0", "multiply", None),
            "maxnumf": (nan, "maxnum", "larger"),
            "minnumf": (nan, "minnum", "smaller"),
            "maximumf": (f"-{infinity}", "maximum", None),
            "minimumf": (infinity, "minimum", None),
        }
        return Combiner(op, *table[name]) if name in table else None
    ones = (1 << element.bits) - 1
    low, high = 1 << (element.bits - 1), (1 << (element.bits - 1)) - 1
    bits = {"addi": (0, "add"), "muli": (1, "multiply"), "ori": (0, "or"), "xori": (0, "xor"), "andi": (ones, "and")}
    if element is not Element.I1:
        bits |= {"maxsi": (low, "larger"), "minsi": (high, "smaller")}
    elif name in ("addi", "muli"):
        return None
    return Combiner(op, literal(bits[name][0], element), bits[name][1]) if name in bits else None


def emit_reduce(scope: Scope, op: Op) -> None:
    axis = op.integer("axis")
    source = op.operands[0].type
    inner = max((n for n, size in enumerate(source.shape) if size > 1), default=axis)
    combiner = known_combiner(op.regions[0], source.element) if len(op.operands) == 1 and not source.pointer else None
    if combiner is None:
        _reduce_arrays(scope, op, axis, along_lanes=axis == inner)
    elif axis == inner:
        _reduce_rows(scope, op, axis, combiner)
    else:
        _reduce_columns(scope, op, axis, combiner)


def result_home(scope: Scope, value: Value) -> str:
    """Declare where a result lives: a variable, or an array."""
    if value.type.shape:
        name = scope.array(value.type, value.name)
        scope.arrays[value] = name
    else:
        name = scope.fresh(value.name)
        scope.write(f"{scalar_type(value.type)} {name};")
        scope.scalars[value] = name
    return name


def _put(loop: Loop, value: Value, home: str, index: Index, code: str) -> None:
    if value.type.shape:
        write_array(loop, home, value.type, index, Uniform(code))
    else:
        loop.body.append(f"{home} = {code};")


def _drop(index: Index, axis: int) -> Index:
    return index[:axis] + index[axis + 1 :]


def _reduce_rows(scope: Scope, op: Op, axis: int, combiner: Combiner) -> None:
    """Along the dimension that loops walk in vectors: accumulate in registers, fold once per row."""
    operand, kind = op.operands[0], op.operands[0].type
    vectors = vector_dimension(kind.shape, scope.isa.lanes) is not None
    if not vectors and kind.count > scope.isa.lanes:
        materialise(scope, operand)  # whole vectors can be computed, though not reduced
    home = result_home(scope, op.result)
    scalar = Type(kind.element)
    total = scope.fresh("acc")
    fast = combiner.fast if vectors else None
    extreme = f"{'-' if fast == 'larger' else ''}__builtin_inf{'' if kind.element is Element.F64 else 'f'}()"
    identity = extreme if fast else combiner.identity

    def declaration(name: str) -> str:
        if not vectors:
            return f"{scalar_type(scalar)} {name} = {identity};"
        start = f"-(i32){identity}" if kind.is_predicate else identity
        return f"{vector_type(kind)} {name} = ks_splat<{vector_type(kind)}>({start});"

    def merge(a: str, b: str) -> str:
        if fast:
            return f"{a} = ks_{fast}({b}, {a});"
        return f"{a} = {scope.writer.elementwise(combiner.op, [a, b], [kind, kind], vectors)};"

    def before(loop: Loop) -> None:
        loop.head.append(declaration(total))

    def body(loop: Loop) -> None:
        rep = evaluate(loop, operand, loop.index)
        loop.body.append(merge(total, loop.as_vector(rep, kind) if vectors else uniform_code(rep)))

    def ending(loop: Loop, rest: str) -> None:
        item = evaluate(loop, operand, loop.index)
        if not isinstance(item, Uniform) or not vectors:
            raise Varies
        loop.body.append(_add_alike(loop, (combiner, fast, kind), (total, item.code), rest))

    def after(loop: Loop) -> None:
        folded = total
        if vectors:
            lane = scalar_type(scalar)
            folded = scope.fresh("all")
            fold = fast or combiner.fold
            loop.body.append(f"{lane} {folded} = ks_fold_{fold}<{lane}>({total});")
            if kind.element.is_half and fold in ("add", "multiply"):
                loop.body[-1] = f"{lane} {folded} = ks_round_{kind.element.value}(ks_fold_{fold}<{lane}>({total}));"
        if fast:
            _exactly(loop, operand, combiner, folded, extreme)
        _put(loop, op.result, home, _drop(loop.index, axis), folded)

    several = Accumulator(total, declaration, merge)
    emit_nest(scope, kind.shape, body, row=Row(before, after, ending, several))


def _add_alike(loop: Loop, how: tuple[Combiner, str | None, Type], what: tuple[str, str], rest: str) -> str:
    """Combine the lanes' totals with `rest` elements, a multiple of KS_W, that all equal one scalar."""
    combiner, fast, kind = how
    total, item = what
    if fast:
        return f"{total} = ks_{fast}({loop.as_vector(Uniform(item), kind)}, {total});"
    if combiner.fold == "add" and not kind.element.is_half:
        lane = scalar_type(Type(kind.element))
        times = f"({lane})({rest} / KS_W)"
        item = f"({item} * {times})" if kind.is_float else f"({lane})((u64){item} * (u64){times})"
    elif combiner.fold not in ("and", "or", "larger", "smaller", "maximum", "minimum"):
        raise Varies
    code = loop.scope.writer.elementwise(
        combiner.op, [total, loop.as_vector(Uniform(item), kind)], [kind, kind], vector=True
    )
    return f"{total} = {code};"


def _exactly(loop: Loop, operand: Value, combiner: Combiner, folded: str, extreme: str) -> None:
    """The fast form cannot tell NaN from its identity nor one zero from the other: there, reduce the row once more."""
    kind = operand.type
    position, total = loop.scope.fresh("x"), loop.scope.fresh("acc")
    again = Loop(loop.scope, kind.shape, loop.index, full=False, x=position)
    item = again.as_vector(evaluate(again, operand, loop.index), kind)
    merged = loop.scope.writer.elementwise(combiner.op, [total, item], [kind, kind], vector=True)
    loop.body.append(f"if (__builtin_expect({folded} == {extreme} || {folded} == 0, 0)) {{")
    loop.body.append(f"  {vector_type(kind)} {total} = ks_splat<{vector_type(kind)}>({combiner.identity});")
    loop.body.extend(f"  {line}" for line in again.pre)
    loop.body.append(f"  for (i64 {position} = 0; {position} < {again.extent}; {position} += KS_W) {{")
    loop.body.extend(f"    {line}" for line in again.body)
    loop.body.append(f"    {total} = {merged};")
    loop.body.append("  }")
    loop.body.append(f"  {folded} = ks_fold_{combiner.fold}<{scalar_type(Type(kind.element))}>({total});")
    loop.body.append("}")


def _reduce_columns(scope: Scope, op: Op, axis: int, combiner: Combiner) -> None:
    """Along any other dimension: an array of accumulators, row after row."""
    operand, kind = op.operands[0], op.operands[0].type
    home = result_home(scope, op.result)

    def start(loop: Loop) -> None:
        write_array(loop, home, op.result.type, loop.index, Uniform(combiner.identity))

    def body(loop: Loop) -> None:
        rep = evaluate(loop, operand, loop.index)
        index = _drop(loop.index, axis)
        total = read_array(loop, home, op.result.type, index)
        write_array(loop, home, op.result.type, index, _combine_one(loop, combiner.op, kind, total, rep))

    emit_nest(scope, op.result.type.shape, start)
    emit_nest(scope, kind.shape, body, grouped=False)


def _combine_one(loop: Loop, op: Op, kind: Type, total: Rep, item: Rep) -> Rep:
    writer = loop.scope.writer
    if isinstance(total, Uniform) and isinstance(item, Uniform):
        return Uniform(
            loop.scalar(Type(kind.element), writer.elementwise(op, [total.code, item.code], [kind, kind], vector=False))
        )
    codes = [loop.as_vector(rep, kind) for rep in (total, item)]
    return loop.vector(kind, writer.elementwise(op, codes, [kind, kind], vector=True))


def _reduce_arrays(scope: Scope, op: Op, axis: int, *, along_lanes: bool) -> None:
    """Any combiner, on materialised operands."""
    arrays = [materialise(scope, operand) for operand in op.operands]
    homes = [result_home(scope, value) for value in op.results]
    shape = op.operands[0].type.shape
    size = shape[axis]
    outer = _drop_axis(shape, axis)
    lanes = scope.isa.lanes if along_lanes and size % scope.isa.lanes == 0 and size > scope.isa.lanes else 0
    if along_lanes:

        def row(loop: Loop) -> None:
            _reduce_row(loop, op, axis, arrays, homes, lanes)

        emit_nest(scope, outer, row, vectors=False)
        return
    for first in (True, False):
        position = scope.fresh("k")
        start, end = (0, 1) if first else (1, size)
        scope.open(f"for (i32 {position} = {start}; {position} < {end}; ++{position}) {{")

        def body(loop: Loop, position: str = position, first: bool = first) -> None:
            index = (*loop.index[:axis], Uniform(position), *loop.index[axis:])
            items = [read_array(loop, a, v.type, index) for a, v in zip(arrays, op.operands, strict=True)]
            if not first:
                totals = [read_array(loop, h, v.type, loop.index) for h, v in zip(homes, op.results, strict=True)]
                items = apply_region(loop, op.regions[0], [*totals, *items])
            for value, home, item in zip(op.results, homes, items, strict=True):
                write_array(loop, home, value.type, loop.index, item)

        emit_nest(scope, outer, body)
        scope.close()


def _drop_axis(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def _reduce_row(loop: Loop, op: Op, axis: int, arrays: list[str], homes: list[str], lanes: int) -> None:
    """One row of a custom reduction: whole vectors first if there are several, then what is left one by one."""
    scope = loop.scope
    kinds = [value.type for value in op.operands]
    totals = [scope.fresh("total") for _ in arrays]
    count = kinds[0].shape[axis]

    def items(inner: Loop, at: Rep) -> list[Rep]:
        index = (*loop.index[:axis], at, *loop.index[axis:])
        return [read_array(inner, array, kind, index) for array, kind in zip(arrays, kinds, strict=True)]

    start, step = Loop(scope, (), (), full=False, x=None), Loop(scope, (), (), full=False, x=None)
    position = scope.fresh("k")
    if lanes:
        vectors = _vector_totals(loop, op, lanes, items)
        first: list[Rep] = [Uniform(f"{name}[0]") for name in vectors]
        others: list[Rep] = [Uniform(f"{name}[{position}]") for name in vectors]
        count = lanes
    else:
        first, others = items(start, ZERO), items(step, Uniform(position))
    combined = apply_region(step, op.regions[0], [*map(Uniform, totals), *others])
    loop.body += start.body
    for kind, total, rep in zip(kinds, totals, first, strict=True):
        loop.body.append(f"{scalar_type(kind.with_shape(()))} {total} = {uniform_code(rep)};")
    loop.body.append(f"for (i32 {position} = 1; {position} < {count}; ++{position}) {{")
    loop.body += [f"  {line}" for line in step.body]
    fresh = [scope.fresh("next") for _ in totals]
    loop.body += [f"  const auto {name} = {uniform_code(rep)};" for name, rep in zip(fresh, combined, strict=True)]
    loop.body += [f"  {total} = {name};" for total, name in zip(totals, fresh, strict=True)]
    loop.body.append("}")
    for value, home, total in zip(op.results, homes, totals, strict=True):
        _put(loop, value, home, loop.index, total)


def _vector_totals(loop: Loop, op: Op, lanes: int, items: Callable[[Loop, Rep], list[Rep]]) -> list[str]:
    """Combine a row vector by vector; returns the vectors that hold each lane's total."""
    scope = loop.scope
    kinds = [value.type for value in op.operands]
    size = kinds[0].shape[op.integer("axis")]
    totals = [scope.fresh("acc") for _ in kinds]
    x = scope.fresh("x")
    first, step = Loop(scope, (), (), full=False, x="0"), Loop(scope, (), (), full=False, x=x)
    start = [first.as_vector(rep, kind) for rep, kind in zip(items(first, Linear("0", 1)), kinds, strict=True)]
    loop.body += first.pre + first.body
    loop.body += [f"{vector_type(k)} {t} = {s};" for k, t, s in zip(kinds, totals, start, strict=True)]
    combined = apply_region(step, op.regions[0], [*map(Vector, totals), *items(step, Linear("0", 1))])
    loop.body += step.pre
    loop.body.append(f"for (i64 {x} = {lanes}; {x} < {size}; {x} += {lanes}) {{")
    fresh = [scope.fresh("next") for _ in totals]
    lines = [f"const auto {n} = {step.as_vector(r, k)};" for n, r, k in zip(fresh, combined, kinds, strict=True)]
    lines += [f"{t} = {n};" for t, n in zip(totals, fresh, strict=True)]
    loop.body += [f"  {line}" for line in [*step.body, *lines]]
    loop.body.append("}")
    return totals
