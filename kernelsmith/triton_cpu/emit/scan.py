"""tt.associative_scan: inclusive, forwards or backwards, with any associative function.

Along a dimension of whole vectors a scan takes log2(KS_W) rounds within each vector, every lane combining with the one
1, 2, 4, ... before it (Hillis and Steele, "Data parallel algorithms", CACM 1986), and one more with the total so far.
Along any other dimension it is sequential, in vectors across it where that is possible.
"""

from __future__ import annotations

from kernelsmith.triton_cpu.emit.evaluate import apply_region, materialise
from kernelsmith.triton_cpu.emit.loop import Index, Loop
from kernelsmith.triton_cpu.emit.memory import read_array, write_array
from kernelsmith.triton_cpu.emit.names import scalar_type
from kernelsmith.triton_cpu.emit.nest import emit_nest, vector_dimension
from kernelsmith.triton_cpu.emit.reduce import result_home
from kernelsmith.triton_cpu.emit.reps import Linear, Rep, Uniform, Vector
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.read.ir import Op


def emit_scan(scope: Scope, op: Op) -> None:
    """Give every result its array."""
    axis = op.integer("axis")
    arrays = [materialise(scope, operand) for operand in op.operands]
    homes = [result_home(scope, value) for value in op.results]
    shape = op.operands[0].type.shape
    outer = shape[:axis] + shape[axis + 1 :]
    if vector_dimension(shape, scope.isa.lanes) == axis:
        emit_nest(scope, outer, lambda loop: _row(loop, op, arrays, homes), vectors=False)
    else:
        _sequential(scope, op, outer, (arrays, homes))


def _sequential(scope: Scope, op: Op, outer: tuple[int, ...], places: tuple[list[str], list[str]]) -> None:
    axis, reverse = op.integer("axis"), bool(op.integer("reverse"))
    arrays, homes = places
    size = op.operands[0].type.shape[axis]
    for first in (True, False):
        step = scope.fresh("k")
        start, end = (0, 1) if first else (1, size)
        scope.open(f"for (i32 {step} = {start}; {step} < {end}; ++{step}) {{")
        here, previous = scope.fresh("here"), scope.fresh("previous")
        scope.write(f"const i32 {here} = {f'{size - 1} - {step}' if reverse else step};")
        scope.write(f"const i32 {previous} = {here} {'+' if reverse else '-'} 1;")

        def body(loop: Loop, here: str = here, previous: str = previous, first: bool = first) -> None:
            index = (*loop.index[:axis], Uniform(here), *loop.index[axis:])
            before = (*loop.index[:axis], Uniform(previous), *loop.index[axis:])
            items = [read_array(loop, a, v.type, index) for a, v in zip(arrays, op.operands, strict=True)]
            if not first:
                totals = [read_array(loop, h, v.type, before) for h, v in zip(homes, op.results, strict=True)]
                items = apply_region(loop, op.regions[0], [*totals, *items])
            for value, home, item in zip(op.results, homes, items, strict=True):
                write_array(loop, home, value.type, index, item)

        emit_nest(scope, outer, body)
        scope.close()


def _row(loop: Loop, op: Op, arrays: list[str], homes: list[str]) -> None:
    """One row, vector by vector."""
    scope = loop.scope
    axis, lanes, reverse = op.integer("axis"), scope.isa.lanes, bool(op.integer("reverse"))
    kinds = [value.type for value in op.operands]
    size = kinds[0].shape[axis]
    done, x = scope.fresh("done"), scope.fresh("x")
    totals = [scope.fresh("total") for _ in kinds]
    index: Index = (*loop.index[:axis], Linear("0", 1), *loop.index[axis:])
    step = Loop(scope, (), (), full=False, x=x)
    values: list[Rep] = [read_array(step, array, kind, index) for array, kind in zip(arrays, kinds, strict=True)]
    for distance in (1 << n for n in range(lanes.bit_length() - 1)):
        values = _round(step, op, values, -distance if reverse else distance)
    before = [Vector(step.as_vector(Uniform(total), kind)) for total, kind in zip(totals, kinds, strict=True)]
    joined = _where(step, f"{done} > 0", apply_region(step, op.regions[0], [*before, *values]), values, op)
    for value, home, total, rep in zip(op.results, homes, totals, joined, strict=True):
        write_array(step, home, value.type, index, rep)
        last = f"{step.as_vector(rep, value.type)}[{0 if reverse else lanes - 1}]"
        step.body.append(f"{total} = {last}{' != 0' if value.type.is_predicate else ''};")
    loop.body += [f"{scalar_type(kind.with_shape(()))} {total} = 0;" for kind, total in zip(kinds, totals, strict=True)]
    loop.body += step.pre
    loop.body.append(f"for (i64 {done} = 0; {done} < {size}; {done} += KS_W) {{")
    loop.body.append(f"  const i64 {x} = {f'{size} - KS_W - {done}' if reverse else done};")
    loop.body += [f"  {line}" for line in step.body]
    loop.body.append("}")


def _round(step: Loop, op: Op, values: list[Rep], distance: int) -> list[Rep]:
    """Combine each lane with the one `distance` lanes before it, where there is one."""
    kinds = [value.type for value in op.operands]
    earlier: list[Rep] = [
        step.vector(kind, f"ks_earlier({step.as_vector(rep, kind)}, {distance})")
        for rep, kind in zip(values, kinds, strict=True)
    ]
    combined = apply_region(step, op.regions[0], [*earlier, *values])
    return _where(step, f"ks_has_earlier({distance})", combined, values, op)


def _where(step: Loop, condition: str, some: list[Rep], others: list[Rep], op: Op) -> list[Rep]:
    return [
        step.vector(
            value.type, f"ks_select({condition}, {step.as_vector(a, value.type)}, {step.as_vector(b, value.type)})"
        )
        for a, b, value in zip(some, others, op.operands, strict=True)
    ]
