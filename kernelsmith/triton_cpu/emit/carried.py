"""Values that live across iterations and branches: loop-carried values, and results of conditions and calls.

Scalars are variables, tensors are arrays, except a tensor that only ever moves by a scalar (pointers and offsets,
mostly): that one stays its initial expression plus a variable, so that its loads stay contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernelsmith.triton_cpu.emit.analysis import is_lazy
from kernelsmith.triton_cpu.emit.evaluate import evaluate, materialise
from kernelsmith.triton_cpu.emit.loop import Loop
from kernelsmith.triton_cpu.emit.memory import write_array
from kernelsmith.triton_cpu.emit.names import scalar_type
from kernelsmith.triton_cpu.emit.nest import emit_nest
from kernelsmith.triton_cpu.emit.reps import Uniform, uniform_code
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.errors import UnsupportedConstruct
from kernelsmith.triton_cpu.read.ir import Dense, Op, Value


@dataclass(frozen=True)
class Carried:
    """Where a value lives across iterations: `home` is a variable or an array, or the shift of a shifted tensor."""

    value: Value
    home: str
    steps: tuple[Value, ...] | None = None


def scalar_of(scope: Scope, value: Value) -> str:
    if value not in scope.scalars:
        raise UnsupportedConstruct(value.name, f"a scalar was expected, not {value.type}")
    return scope.scalars[value]


# ---- homes and assignments ----


def declare(scope: Scope, value: Value, initial: Value | None) -> str:
    """A home for a value of this type, holding `initial` if there is one."""
    if not value.type.shape:
        name = scope.fresh(value.name)
        start = f" = {scalar_of(scope, initial)}" if initial is not None else ""
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


def bind(scope: Scope, value: Value, home: str) -> None:
    (scope.arrays if value.type.shape else scope.scalars)[value] = home


def alias(scope: Scope, argument: Value, operand: Value) -> None:
    """Let an argument be another name of `operand`, whose expression, if it has no array, stays an expression."""
    if not argument.type.shape or operand in scope.arrays:
        bind(scope, argument, scope.arrays[operand] if argument.type.shape else scalar_of(scope, operand))
    else:
        scope.arrays.pop(argument, None)
        scope.uses.definitions[argument] = Op("tt.broadcast", (operand,), (argument,))


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


def assign(scope: Scope, targets: Sequence[Carried], values: Sequence[Value]) -> None:
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
            fresh.append(scalar_of(scope, value))
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


def steps_of(scope: Scope, argument: Value, yielded: Value) -> tuple[Value, ...] | None:
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
