"""Loops, conditions, branches and calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernelsmith.triton_cpu.emit.atomics import is_volatile
from kernelsmith.triton_cpu.emit.branches import emit_blocks
from kernelsmith.triton_cpu.emit.carried import Carried, alias, assign, bind, declare, scalar_of, steps_of
from kernelsmith.triton_cpu.emit.dot import is_zero
from kernelsmith.triton_cpu.emit.evaluate import materialise
from kernelsmith.triton_cpu.emit.names import array_element, scalar_type
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.emit.statements import emit_block, settle
from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct
from kernelsmith.triton_cpu.read.ir import Block, Function, Op, Region, Type, Value, walk

_MAX_CALLS = 8


def emit_control(scope: Scope, block: Block, position: int) -> bool:
    """Emit an operation with regions, or a call; False if it is neither."""
    op = block.ops[position]
    handler = _HANDLERS.get(op.name)
    if handler is None:
        return False
    settle(scope, block, position, include=True)
    handler(scope, op)
    return True


def emit_function(scope: Scope, function: Function, results: Sequence[Carried] = ()) -> None:
    """A function's blocks; what it returns goes into `results`."""

    def finish(terminator: Op | None) -> None:
        if results and terminator is not None:
            assign(scope, results, terminator.operands)

    emit_blocks(scope, function.body, finish, emit_control)


def _body(scope: Scope, region: Region) -> Op | None:
    if len(region.blocks) != 1:
        raise TtirError("a structured region has one block")
    return emit_block(scope, region.entry, emit_control)


def _accumulate_in_place(scope: Scope, carried: Carried, initial: Value, yielded: Value) -> None:
    """A matrix product that updates a loop-carried tensor nobody else reads works on that tensor's own array."""
    dot = scope.definition(yielded)
    if dot is None or dot.name != "tt.dot" or carried.value.type.element.is_half:
        return
    start = dot.operands[2]
    users = scope.uses.users
    if start is carried.value and users.get(start) == [dot]:
        scope.in_place[dot] = carried.home
        scope.coarse[dot] = scope.fresh("coarse")
        scope.write(f"bool {scope.coarse[dot]} = {'true' if is_zero(scope, initial) else 'false'};")
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
        steps = steps_of(scope, argument, value)
        if steps is None:
            carried.append(Carried(argument, declare(scope, argument, initial)))
            _accumulate_in_place(scope, carried[-1], initial, value)
            continue
        home = scope.fresh("moved")
        kind = "i64" if argument.type.pointer else scalar_type(argument.type.with_shape(()))
        scope.write(f"{kind} {home} = 0;")
        carried.append(Carried(argument, home, steps))
    low, high, step = (scalar_of(scope, value) for value in op.operands[:3])
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
                bind(scope, item.value, item.home)
            else:
                scope.shifted[item.value] = (initial, item.home)
        _body(scope, op.regions[0])
        assign(scope, carried, yielded)
    for item, result, initial in zip(carried, op.results, initials, strict=True):
        if item.steps is None:
            bind(scope, result, item.home)
        else:
            scope.shifted[result] = (initial, item.home)


def emit_if(scope: Scope, op: Op) -> None:
    homes = [Carried(value, declare(scope, value, None)) for value in op.results]
    condition = scalar_of(scope, op.operands[0])
    for number, region in enumerate(op.regions):
        if number and not region.entry.ops:
            continue
        with scope.region(f"if ({condition}) {{" if number == 0 else "else {"):
            terminator = _body(scope, region)
            assign(scope, homes, terminator.operands if terminator is not None else ())
    for item in homes:
        bind(scope, item.value, item.home)


def emit_while(scope: Scope, op: Op) -> None:
    before, after = op.regions
    carried = [
        Carried(argument, declare(scope, argument, initial))
        for argument, initial in zip(before.entry.arguments, op.operands, strict=True)
    ]
    results = [Carried(value, declare(scope, value, None)) for value in op.results]
    header = "for (;;) {"
    waits = _may_wait(op)
    if waits:
        scope.waits = True
        rounds = scope.fresh("rounds")
        header = f"for (u32 {rounds} = 0;; ks_wait(&{rounds})) {{"
    with scope.region(header):
        for item in carried:
            bind(scope, item.value, item.home)
        condition = _body(scope, before)
        if condition is None or condition.name != "scf.condition":
            raise TtirError("the first region of scf.while must end in scf.condition")
        go_on = scalar_of(scope, condition.operands[0])
        assign(scope, results, condition.operands[1:])
        scope.write(f"if (!{go_on}) break;")
        if scope.checks is not None and waits:
            scope.write(scope.checks.goes_on(op))
        for item, argument in zip(results, after.entry.arguments, strict=True):
            bind(scope, argument, item.home)
        terminator = _body(scope, after)
        assign(scope, carried, terminator.operands if terminator is not None else ())
    for item in results:
        bind(scope, item.value, item.home)


def _may_wait(op: Op) -> bool:
    """True for a loop that keeps looking at memory which another program instance may change.

    That is: at a place that does not move, or by a volatile or atomic operation. A search that loads from a new place
    in each round does not wait.
    """
    moves = {value for region in op.regions for value in region.entry.arguments}
    for inner in (inner for region in op.regions for inner in walk(region)):
        moves.update(value for region in inner.regions for value in region.entry.arguments)
        if inner.name.startswith("tt.atomic") or is_volatile(inner):
            return True
        if inner.name == "tt.load" and inner.operands[0] not in moves:
            return True
        if inner.regions or inner.name == "tt.load" or any(value in moves for value in inner.operands):
            moves.update(inner.results)
    return False


def emit_call(scope: Scope, op: Op) -> None:
    """A function that the front end was told not to inline becomes a lambda that is called on the spot."""
    name = op.words[0].lstrip("@").strip('"') if op.words else ""
    function = scope.module.functions.get(name)
    if function is None:
        raise TtirError(f"tt.call @{name}: there is no such function")
    if function in scope.calls:
        raise UnsupportedConstruct(
            f"the recursive call of {name}", "a kernel has no stack for it; write a loop", op.location
        )
    if len(scope.calls) >= _MAX_CALLS:
        raise UnsupportedConstruct(
            f"the call of {name}", f"calls nest deeper than {_MAX_CALLS}; drop noinline=True", op.location
        )
    expected = [argument.type for argument in function.arguments], list(function.results)
    if expected != ([operand.type for operand in op.operands], [value.type for value in op.results]):
        raise TtirError(f"tt.call @{name} does not match the function's signature")
    homes = [Carried(value, declare(scope, value, None)) for value in op.results]
    scope.calls.append(function)
    with scope.region("[&] {"):
        for argument, operand in zip(function.arguments, op.operands, strict=True):
            alias(scope, argument, operand)
        emit_function(scope, function, homes)
    scope.lines[-1] += "();"
    scope.calls.pop()
    for item in homes:
        bind(scope, item.value, item.home)


def emit_map(scope: Scope, op: Op) -> None:
    """tt.map_elementwise: a scalar function of `pack` neighbouring elements at a time, in row-major order."""
    pack, region = op.integer("pack", 1), op.regions[0]
    count = op.operands[0].type.count
    arguments = [(operand, part) for operand in op.operands for part in range(pack)]
    results = [(value, part) for value in op.results for part in range(pack)]
    wanted = [operand.type.with_shape(()) for operand, _ in arguments]
    if pack < 1 or count % pack or [argument.type for argument in region.entry.arguments] != wanted:
        raise TtirError("tt.map_elementwise does not match its function")
    arrays = {operand: materialise(scope, operand) for operand in op.operands}
    homes = {value: scope.array(value.type, value.name) for value in op.results}
    first = scope.fresh("first")

    def place(array: str, kind: Type, part: int) -> str:
        return f"{array} + {array_element(kind).bytes} * ({first} + {part})"

    def finish(terminator: Op | None) -> None:
        values = terminator.operands if terminator is not None else ()
        if [value.type for value in values] != [value.type.with_shape(()) for value, _ in results]:
            raise TtirError("tt.map_elementwise does not match what its function returns")
        for (home, part), value in zip(results, values, strict=True):
            code = f"(i64){scalar_of(scope, value)}" if value.type.pointer else scalar_of(scope, value)
            element = array_element(home.type).value
            scope.write(f"ks_put_{element}({place(homes[home], home.type, part)}, {code});")

    with scope.region(f"for (i64 {first} = 0; {first} < {count}; {first} += {pack}) [&] {{"):
        for argument, (operand, part) in zip(region.entry.arguments, arguments, strict=True):
            name, kind = scope.fresh(argument.name), scalar_type(argument.type)
            element = array_element(operand.type).value
            scope.write(
                f"const {kind} {name} = ({kind})ks_get_{element}({place(arrays[operand], operand.type, part)});"
            )
            scope.scalars[argument] = name
        emit_blocks(scope, region, finish, emit_control)
    scope.lines[-1] += "();"
    for value in op.results:
        bind(scope, value, homes[value])


_HANDLERS: dict[str, Callable[[Scope, Op], None]] = {
    "scf.for": emit_for,
    "scf.if": emit_if,
    "scf.while": emit_while,
    "tt.call": emit_call,
    "tt.map_elementwise": emit_map,
}
