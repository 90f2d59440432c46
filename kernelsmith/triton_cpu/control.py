"""Loops, conditions, branches and calls.

Loop-carried scalars are variables, loop-carried tensors are arrays, except a tensor that only ever moves by a scalar
(pointers and offsets, mostly): that one stays its initial expression plus a variable, so that its loads stay
contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kernelsmith.triton_cpu.analysis import is_lazy
from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct
from kernelsmith.triton_cpu.evaluate import evaluate, materialise
from kernelsmith.triton_cpu.ir import Block, Dense, Function, Op, Region, Value
from kernelsmith.triton_cpu.loop import Loop
from kernelsmith.triton_cpu.memory import write_array
from kernelsmith.triton_cpu.names import scalar_type
from kernelsmith.triton_cpu.nest import emit_nest
from kernelsmith.triton_cpu.reps import Uniform, uniform_code
from kernelsmith.triton_cpu.scope import Scope
from kernelsmith.triton_cpu.statements import emit_block, settle

_MAX_BLOCKS = 256
_MAX_CALLS = 8


@dataclass(frozen=True)
class Carried:
    """Where a value lives across iterations: `home` is a variable or an array, or the shift of a shifted tensor."""

    value: Value
    home: str
    steps: tuple[Value, ...] | None = None


def emit_control(scope: Scope, block: Block, position: int) -> bool:
    """Emit an operation with regions, or a call; False if it is neither."""
    op = block.ops[position]
    handler = _HANDLERS.get(op.name)
    if handler is None:
        return False
    settle(scope, block, position, include=True)
    handler(scope, op)
    return True


def _scalar(scope: Scope, value: Value) -> str:
    if value not in scope.scalars:
        raise UnsupportedConstruct(value.name, f"a scalar was expected, not {value.type}")
    return scope.scalars[value]


# ---- homes and assignments ----


def _declare(scope: Scope, value: Value, initial: Value | None) -> str:
    """A home for a value of this type, holding `initial` if there is one."""
    if not value.type.shape:
        name = scope.fresh(value.name)
        start = f" = {_scalar(scope, initial)}" if initial is not None else ""
        scope.write(f"{scalar_type(value.type)} {name}{start};")
        return name
    name = scope.array(value.type, value.name)
    if initial is not None:
        _fill(scope, name, initial)
    return name


def _fill(scope: Scope, home: str, value: Value) -> None:
    def body(loop: Loop) -> None:
        write_array(loop, home, value.type, loop.index, evaluate(loop, value, loop.index))

    if scope.arrays.get(value) != home:
        emit_nest(scope, value.type.shape, body)


def _bind(scope: Scope, value: Value, home: str) -> None:
    (scope.arrays if value.type.shape else scope.scalars)[value] = home


def _reads(scope: Scope, value: Value, targets: set[str]) -> dict[str, bool]:
    """Homes that evaluating `value` would read; True where it reads them only element by element."""
    found: dict[str, bool] = {}
    stack = [(value, True)]
    seen: set[tuple[Value, bool]] = set()
    while stack:
        current, same_index = stack.pop()
        if (current, same_index) in seen:
            continue
        seen.add((current, same_index))
        home = scope.arrays.get(current)
        if home is not None:
            if home in targets:
                found[home] = found.get(home, True) and same_index
            continue
        op = scope.definition(current)
        if op is not None and is_lazy(op):
            keeps = op.name.startswith(("arith.", "math.")) or op.name in (
                "tt.addptr",
                "tt.load",
                "tt.bitcast",
                "tt.fp_to_fp",
            )
            stack.extend((operand, same_index and keeps) for operand in op.operands if operand.type.shape)
    return found


def _assign(scope: Scope, targets: Sequence[Carried], values: Sequence[Value]) -> None:
    """Assign all values to all homes as if at once."""
    homes = {target.home for target in targets if target.value.type.shape and target.steps is None}
    pairs = list(zip(targets, values, strict=True))
    for target, value in pairs:
        if target.home in homes and scope.arrays.get(value) != target.home:
            reads = _reads(scope, value, homes)
            if any(home != target.home or not same_index for home, same_index in reads.items()):
                _snapshot(scope, value)
    for target, value in pairs:
        if target.home in homes:
            _fill(scope, target.home, value)
    fresh: list[str] = []
    for target, value in pairs:
        if target.steps is not None:
            total = [_uniform(scope, step) for step in target.steps]
            kind = "i64" if target.value.type.pointer else f"i{target.value.type.element.bits}"
            wide = "u64" if kind == "i64" else f"u{max(32, target.value.type.element.bits)}"
            sum_code = " + ".join([f"({wide}){target.home}", *(f"({wide})({step})" for step in total)])
            fresh.append(f"({kind})({sum_code})")
        elif target.home not in homes:
            fresh.append(_scalar(scope, value))
        else:
            fresh.append("")
    names = [
        scope.fresh("next") if code and code != target.home else "" for code, target in zip(fresh, targets, strict=True)
    ]
    scope.write(*(f"const auto {name} = {code};" for name, code in zip(names, fresh, strict=True) if name))
    scope.write(*(f"{target.home} = {name};" for name, target in zip(names, targets, strict=True) if name))


def _snapshot(scope: Scope, value: Value) -> None:
    """Copy a tensor out of the way of assignments to come."""
    if value in scope.arrays:
        name = scope.array(value.type, value.name)
        _fill(scope, name, value)
        scope.arrays[value] = name
    else:
        materialise(scope, value)


# ---- tensors that move by a scalar ----


def _steps(scope: Scope, argument: Value, yielded: Value) -> tuple[Value, ...] | None:
    """Uniform tensors whose sum is what one iteration adds to `argument`; None if it changes in another way."""
    if not argument.type.shape or not (argument.type.pointer or argument.type.is_integer) or argument.type.is_predicate:
        return None
    found: list[Value] = []
    value = yielded
    while value is not argument:
        op = scope.definition(value)
        if op is None or op.name not in ("tt.addptr", "arith.addi"):
            return None
        base, step = op.operands
        if op.name == "arith.addi" and _is_uniform(scope, base):
            base, step = step, base
        if not _is_uniform(scope, step):
            return None
        found.append(step)
        value = base
    return tuple(found)


def _is_uniform(scope: Scope, value: Value) -> bool:
    op = scope.definition(value)
    if not value.type.shape:
        return True
    if op is None:
        return False
    if op.name == "arith.constant":
        dense = op.attributes["value"]
        return isinstance(dense, Dense) and len(dense.bits) == 1
    elementwise = op.name in ("arith.extsi", "arith.extui", "arith.trunci", "arith.muli", "arith.addi", "arith.subi")
    return op.name == "tt.splat" or (elementwise and all(_is_uniform(scope, operand) for operand in op.operands))


def _uniform(scope: Scope, value: Value) -> str:
    """The scalar that every element of a uniform tensor equals."""
    loop = Loop(scope, (), (), full=False, x=None)
    rep = evaluate(loop, value, tuple(Uniform("0") for _ in value.type.shape))
    scope.write(*loop.body)
    return uniform_code(rep)


# ---- operations ----


def _body(scope: Scope, region: Region) -> Op | None:
    if len(region.blocks) != 1:
        raise TtirError("a structured region has one block")
    return emit_block(scope, region.entry, emit_control)


def _accumulate_in_place(scope: Scope, carried: Carried, yielded: Value) -> None:
    """A matrix product that updates a loop-carried tensor nobody else reads works on that tensor's own array."""
    dot = scope.definition(yielded)
    if dot is None or dot.name != "tt.dot":
        return
    start = dot.operands[2]
    users = scope.uses.users
    if start is carried.value and users.get(start) == [dot]:
        scope.in_place[dot] = carried.home
        return
    scale = scope.definition(start)
    if scale is None or not scale.name.startswith("arith.") or users.get(start) != [dot]:
        return
    if carried.value in scale.operands and users.get(carried.value) == [scale]:
        scope.in_place[dot] = carried.home


def emit_for(scope: Scope, op: Op) -> None:
    block = op.regions[0].entry
    induction, *arguments = block.arguments
    last = block.ops[-1] if block.ops else None
    yielded = last.operands if last is not None and last.name == "scf.yield" else ()
    if len(yielded) != len(arguments):
        raise TtirError("scf.for must yield what it carries")
    carried: list[Carried] = []
    initials = op.operands[3:]
    for argument, initial, value in zip(arguments, initials, yielded, strict=True):
        steps = _steps(scope, argument, value)
        if steps is None:
            carried.append(Carried(argument, _declare(scope, argument, initial)))
            _accumulate_in_place(scope, carried[-1], value)
            continue
        home = scope.fresh("moved")
        kind = "i64" if argument.type.pointer else scalar_type(argument.type.with_shape(()))
        scope.write(f"{kind} {home} = 0;")
        carried.append(Carried(argument, home, steps))
    low, high, step = (_scalar(scope, value) for value in op.operands[:3])
    kind = scalar_type(induction.type)
    name = scope.fresh(induction.name)
    # A trip count, so that an induction variable near its type's end cannot wrap around.
    trips = scope.fresh("trips")
    unsigned = "u" if op.integer("unsigned") else ""
    bits = induction.type.element.bits
    a, b = (f"({unsigned}i{bits}){code}" if not unsigned else f"(u{bits}){code}" for code in (low, high))
    distance = f"(u64)({b}) - (u64)({a})"
    scope.write(f"const u64 {trips} = {a} < {b} ? ({distance} + (u64){step} - 1) / (u64){step} : 0;")
    scope.write(f"{kind} {name} = {low};")
    trip = scope.fresh("trip")
    with scope.region(
        f"for (u64 {trip} = 0; {trip} < {trips}; ++{trip}, {name} = ({kind})((u64){name} + (u64){step})) {{"
    ):
        scope.scalars[induction] = name
        for item, initial in zip(carried, initials, strict=True):
            if item.steps is None:
                _bind(scope, item.value, item.home)
            else:
                scope.shifted[item.value] = (initial, item.home)
        _body(scope, op.regions[0])
        _assign(scope, carried, yielded)
    for item, result, initial in zip(carried, op.results, initials, strict=True):
        if item.steps is None:
            _bind(scope, result, item.home)
        else:
            scope.shifted[result] = (initial, item.home)


def emit_if(scope: Scope, op: Op) -> None:
    homes = [Carried(value, _declare(scope, value, None)) for value in op.results]
    condition = _scalar(scope, op.operands[0])
    for number, region in enumerate(op.regions):
        if number and not region.entry.ops:
            continue
        with scope.region(f"if ({condition}) {{" if number == 0 else "else {"):
            terminator = _body(scope, region)
            _assign(scope, homes, terminator.operands if terminator is not None else ())
    for item in homes:
        _bind(scope, item.value, item.home)


def emit_while(scope: Scope, op: Op) -> None:
    before, after = op.regions
    carried = [
        Carried(argument, _declare(scope, argument, initial))
        for argument, initial in zip(before.entry.arguments, op.operands, strict=True)
    ]
    results = [Carried(value, _declare(scope, value, None)) for value in op.results]
    with scope.region("for (;;) {"):
        for item in carried:
            _bind(scope, item.value, item.home)
        condition = _body(scope, before)
        if condition is None or condition.name != "scf.condition":
            raise TtirError("the first region of scf.while must end in scf.condition")
        go_on = _scalar(scope, condition.operands[0])
        _assign(scope, results, condition.operands[1:])
        scope.write(f"if (!{go_on}) break;")
        for item, argument in zip(results, after.entry.arguments, strict=True):
            _bind(scope, argument, item.home)
        terminator = _body(scope, after)
        _assign(scope, carried, terminator.operands if terminator is not None else ())
    for item in results:
        _bind(scope, item.value, item.home)


def emit_call(scope: Scope, op: Op) -> None:
    """A function that the front end was told not to inline becomes a lambda that is called on the spot."""
    name = op.words[0].lstrip("@").strip('"') if op.words else ""
    function = scope.module.functions.get(name)
    if function is None or function in scope.calls or len(scope.calls) >= _MAX_CALLS:
        raise UnsupportedConstruct(f"tt.call @{name}", "the function is missing or recursive", op.location)
    if len(function.arguments) != len(op.operands) or len(op.results) != len(function.results):
        raise TtirError(f"tt.call @{name} does not match the function's signature")
    homes = [Carried(value, _declare(scope, value, None)) for value in op.results]
    scope.calls.append(function)
    with scope.region("[&] {"):
        for argument, operand in zip(function.arguments, op.operands, strict=True):
            if argument.type != operand.type:
                raise TtirError(f"tt.call @{name} does not match the function's signature")
            _bind(scope, argument, materialise(scope, operand) if operand.type.shape else _scalar(scope, operand))
        emit_function(scope, function, homes)
    scope.lines[-1] += "();"
    scope.calls.pop()
    for item in homes:
        _bind(scope, item.value, item.home)


def emit_function(scope: Scope, function: Function, results: Sequence[Carried] = ()) -> None:
    """A function's blocks, from the entry on. Branches become nested ifs; a join is emitted once per predecessor."""
    blocks = {block.label: block for block in function.body.blocks}
    emitted = 0

    def emit(block: Block) -> None:
        nonlocal emitted
        emitted += 1
        if emitted > _MAX_BLOCKS:
            raise UnsupportedConstruct("cf.br", "the control flow is not structured")
        terminator = emit_block(scope, block, emit_control)
        if terminator is None or terminator.name == "tt.return":
            if results and terminator is not None:
                _assign(scope, results, terminator.operands)
            scope.write("return;")
            return
        settle(scope, block, len(block.ops) - 1, include=True)
        headers = ["{"]
        if terminator.name == "cf.cond_br":
            headers = [f"if ({_scalar(scope, terminator.operands[0])}) {{", "else {"]
        for header, successor in zip(headers, terminator.successors, strict=True):
            target = blocks.get(successor.block)
            if target is None or len(target.arguments) != len(successor.operands):
                raise TtirError(f"no block {successor.block} takes {len(successor.operands)} values")
            with scope.region(header):
                for argument, operand in zip(target.arguments, successor.operands, strict=True):
                    _bind(
                        scope, argument, materialise(scope, operand) if operand.type.shape else _scalar(scope, operand)
                    )
                emit(target)

    emit(function.body.entry)


_HANDLERS: dict[str, Callable[[Scope, Op], None]] = {
    "scf.for": emit_for,
    "scf.if": emit_if,
    "scf.while": emit_while,
    "tt.call": emit_call,
}
