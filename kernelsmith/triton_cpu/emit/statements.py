"""The operations that do something, in program order: stores, atomics, products, and what must be settled first.

A lazy load runs where its value is needed, which must not be after a store that could change it. Before anything with
an effect, every load that a later root still needs gets its array; a store's own loop may load on the way only what
it does not overwrite before it is read (see `overlap`).
"""

from __future__ import annotations

from collections.abc import Callable

from kernelsmith.triton_cpu.emit.analysis import is_lazy
from kernelsmith.triton_cpu.emit.atomics import (
    FENCE,
    emit_atomic_cas,
    emit_atomic_load,
    emit_atomic_poll,
    emit_atomic_rmw,
    emit_atomic_store,
    emit_barrier,
    is_volatile,
)
from kernelsmith.triton_cpu.emit.dot import emit_dot
from kernelsmith.triton_cpu.emit.evaluate import by_definition, evaluate, materialise
from kernelsmith.triton_cpu.emit.loop import Loop
from kernelsmith.triton_cpu.emit.memory import store_lanes, write_array
from kernelsmith.triton_cpu.emit.messages import emit_print
from kernelsmith.triton_cpu.emit.names import array_element
from kernelsmith.triton_cpu.emit.nest import emit_nest
from kernelsmith.triton_cpu.emit.overlap import Bases, bases, keep_apart
from kernelsmith.triton_cpu.emit.reduce import emit_reduce
from kernelsmith.triton_cpu.emit.reps import ZERO, Linear, Uniform, uniform_code
from kernelsmith.triton_cpu.emit.scan import emit_scan
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.emit.streaming import may_stream
from kernelsmith.triton_cpu.errors import MISFITS, TtirError, UnsupportedConstruct, reason_for
from kernelsmith.triton_cpu.read.ir import Block, Op, Value

TERMINATORS = {"scf.yield", "scf.condition", "tt.return", "tt.map_elementwise.return", "cf.br", "cf.cond_br"}
_BARRIERS = ("gpu.barrier", "ttg.barrier", "nvvm.barrier0")
_EFFECTS = {
    "tt.store",
    "tt.call",
    "tt.atomic_rmw",
    "tt.atomic_cas",
    "tt.atomic_load",
    "tt.atomic_store",
    "tt.atomic_poll",
}
_EFFECTS.update(_BARRIERS)
_NOTHING = {"llvm.intr.assume"}


def settle(scope: Scope, block: Block, position: int, *, include: bool) -> None:
    """Give arrays to what would otherwise run later than `position` in this block.

    Loads and kept values whose last root lies behind `position` (or at it, with `include`).
    """
    for op in block.ops[:position]:
        if not is_lazy(op):
            continue
        for value in op.results:
            last = scope.uses.last_root.get(value, -1)
            if value in scope.arrays or last < position or (last == position and not include):
                continue
            kept = value in scope.uses.arrays
            if op.name == "tt.load" or (kept and (include or scope.uses.loads_below([value], set(scope.arrays)))):
                materialise(scope, value)


def emit_block(scope: Scope, block: Block, control: Callable[[Scope, Block, int], bool]) -> Op | None:
    """Emit a block's operations up to its terminator, which is returned.

    `control` emits operations with regions and says whether it did.
    """
    for position, op in enumerate(block.ops):
        if op.name in TERMINATORS:
            return op
        try:
            _emit_op(scope, block, position, control)
        except UnsupportedConstruct as error:
            raise error.at(op.location) from None
        except TtirError:
            raise
        except MISFITS as error:
            where = f" at {op.location}" if op.location else ""
            message = (
                f"{op.name}{where}, or what it is computed from, does not fit its operands or attributes: {error!r}"
            )
            raise TtirError(message) from error
    return None


def _emit_op(scope: Scope, block: Block, position: int, control: Callable[[Scope, Block, int], bool]) -> None:
    op = block.ops[position]
    if is_volatile(op):
        settle(scope, block, position, include=False)
        _load_now(scope, op)
        return
    if op.name in _NOTHING or is_lazy(op):
        return
    if op.name in _EFFECTS:
        settle(scope, block, position, include=False)
    if op.name in _ROOTS:
        _ROOTS[op.name](scope, op)
    elif not control(scope, block, position):
        emit_scalar(scope, op)


def _load_now(scope: Scope, op: Op) -> None:
    """A volatile load happens in its place, between two fences that the C++ compiler moves nothing across."""
    scope.write(FENCE)
    if op.result.type.shape:
        materialise(scope, op.result)
    else:
        emit_scalar(scope, op)
    scope.write(FENCE)


def emit_scalar(scope: Scope, op: Op) -> None:
    """A rank-0 operation becomes a variable."""
    if len(op.results) != 1 or op.result.type.shape:
        raise UnsupportedConstruct(op.name, reason_for(op.name), op.location)
    loop = Loop(scope, (), (), full=False, x=None)
    rep = by_definition(loop, op, op.result, ())
    scope.write(*loop.body)
    scope.scalars[op.result] = uniform_code(rep)


def emit_store(scope: Scope, op: Op) -> None:
    safe, risky = _loads(scope, op)
    keep_apart(scope, op, safe)
    if risky and not _store_where_apart(scope, op, risky):
        for load in risky:
            materialise(scope, load.result)
        risky = []
    if not risky:
        _store(scope, op)
    for load in safe:
        scope.snapshots.pop(load, None)


def _loads(scope: Scope, op: Op) -> tuple[dict[Op, Bases], list[Op]]:
    """The loads of a store's values: those with its own offsets, and those that read what any step may overwrite."""
    pointer = op.operands[0]
    known = set(scope.arrays)
    moved = set(scope.uses.moved_loads_below(op.operands, known))
    safe: dict[Op, Bases] = {}
    risky: list[Op] = []
    for load in scope.uses.loads_below(op.operands, known):
        ends = bases(scope, load.operands[0], pointer)
        if ends is None or load in moved or load.result.type.shape != pointer.type.shape:
            risky.append(load)
        else:
            safe[load] = ends
    return safe, risky


def _store_where_apart(scope: Scope, op: Op, risky: list[Op]) -> bool:
    """Store a row twice over: loading on the way if the memory is apart at run time, from arrays if not.

    A norm's weights are never the output, but only the addresses can tell.
    """
    for value in scope.uses.kept_below(op.operands, set(scope.arrays)):
        materialise(scope, value)
    written = _extent(scope, op.operands[0])
    read = [_extent(scope, load.operands[0]) for load in risky]
    if written is None or None in read:
        return False
    apart = " && ".join(f"ks_apart({written}, {extent})" for extent in read)
    with scope.region(f"if ({apart}) {{"):
        _store(scope, op)
    with scope.region("else {"):
        for load in risky:
            materialise(scope, load.result)
        _store(scope, op)
    return True


def _extent(scope: Scope, pointer: Value) -> str | None:
    """`start, bytes` of the memory that a row of pointers spans, if it is contiguous or one place."""
    shape = pointer.type.shape
    index = tuple(Linear("0", 1) if size > 1 else ZERO for size in shape)
    if sum(size > 1 for size in shape) != 1:
        return None
    probe = Loop(scope, shape, index, full=True, x="0")
    rep = evaluate(probe, pointer, index)
    size = pointer.type.element.bytes
    if probe.body or probe.limits:
        return None
    scope.write(*probe.pre)
    if isinstance(rep, Uniform):
        return f"{rep.code}, {size}"
    return f"{rep.base}, {size * pointer.type.count}" if isinstance(rep, Linear) and rep.stride == 1 else None


def _store(scope: Scope, op: Op) -> None:
    pointer, stored = op.operands[0], op.operands[1]
    streams = may_stream(scope, op)

    def body(loop: Loop) -> None:
        mask = evaluate(loop, op.operands[2], loop.index) if len(op.operands) > 2 else Uniform("true")
        place = evaluate(loop, pointer, loop.index)
        data = evaluate(loop, stored, loop.index)
        if scope.checks is not None:
            scope.checks.store(loop, op, place, data, mask)
        else:
            store_lanes(loop, stored.type, place, data, mask, streams=streams)

    if scope.checked:
        scope.write("++check.serial;")
    if pointer.type.shape:
        emit_nest(scope, pointer.type.shape, body)
    else:
        loop = Loop(scope, (), (), full=False, x=None)
        body(loop)
        scope.write(*loop.body)


def emit_assert(scope: Scope, op: Op) -> None:
    """tt.assert: each false element is reported, and the launch raises once it has ended."""
    monitor = scope.monitor
    if monitor is None:
        raise TypeError("a kernel with assertions has a monitor")
    for load in scope.uses.loads_below(op.operands, set(scope.arrays)):
        materialise(scope, load.result)

    def body(loop: Loop) -> None:
        condition = uniform_code(evaluate(loop, op.operands[0], loop.index))
        loop.body.append(monitor.assertion(loop, op, condition))

    emit_nest(scope, op.operands[0].type.shape, body, vectors=False)


def emit_cat(scope: Scope, op: Op) -> None:
    """tt.cat along the first axis: one array after the other."""
    kind = op.result.type
    home = scope.array(kind, op.result.name)
    size = array_element(kind).bytes
    for number, operand in enumerate(op.operands):
        part = f"({home} + {number * operand.type.count * size})"

        def body(loop: Loop, operand: Value = operand, part: str = part) -> None:
            write_array(loop, part, operand.type, loop.index, evaluate(loop, operand, loop.index))

        emit_nest(scope, operand.type.shape, body)
    scope.arrays[op.result] = home


def emit_histogram(scope: Scope, op: Op) -> None:
    """tt.histogram: counts of 0, 1, ..., bins - 1; other values and masked-off elements count nowhere."""
    kind = op.result.type
    home = scope.array(kind, op.result.name)

    def clear(loop: Loop) -> None:
        write_array(loop, home, kind, loop.index, Uniform("0"))

    def body(loop: Loop) -> None:
        bin_code = uniform_code(evaluate(loop, op.operands[0], loop.index))
        mask = uniform_code(evaluate(loop, op.operands[1], loop.index)) if len(op.operands) > 1 else "true"
        inside = f"{mask} && {bin_code} >= 0 && {bin_code} < {kind.shape[0]}"
        loop.body.append(f"if ({inside}) ++((ai{kind.element.bits} *){home})[{bin_code}];")

    emit_nest(scope, kind.shape, clear)
    emit_nest(scope, op.operands[0].type.shape, body, vectors=False)
    scope.arrays[op.result] = home


_ROOTS: dict[str, Callable[[Scope, Op], None]] = {
    "tt.store": emit_store,
    "tt.reduce": emit_reduce,
    "tt.scan": emit_scan,
    "tt.dot": emit_dot,
    "tt.atomic_rmw": emit_atomic_rmw,
    "tt.atomic_cas": emit_atomic_cas,
    "tt.atomic_load": emit_atomic_load,
    "tt.atomic_store": emit_atomic_store,
    "tt.atomic_poll": emit_atomic_poll,
    **dict.fromkeys(_BARRIERS, emit_barrier),
    "tt.cat": emit_cat,
    "tt.histogram": emit_histogram,
    "tt.print": emit_print,
    "tt.assert": emit_assert,
}
