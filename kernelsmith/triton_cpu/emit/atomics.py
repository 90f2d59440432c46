"""Atomic operations, and what else orders memory between program instances: barriers and volatile loads.

A tensor's elements are done one by one, in order, so that indices may repeat; but a row of neighbours, whose old values
nobody reads, is updated 16 bytes at a time where the processor can exchange as many. Triton's memory semantics are
C++'s memory orders by name; its scopes all become the same one, since threads and processes see one coherent memory. An
operation without an instruction of its own is a compare-and-swap loop on an integer of the element's size.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelsmith.triton_cpu.emit.evaluate import evaluate, materialise
from kernelsmith.triton_cpu.emit.loop import Loop
from kernelsmith.triton_cpu.emit.memory import write_array
from kernelsmith.triton_cpu.emit.names import scalar_type
from kernelsmith.triton_cpu.emit.nest import emit_nest, vector_dimension
from kernelsmith.triton_cpu.emit.reps import Linear, Uniform, uniform_code
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.errors import UnsupportedConstruct
from kernelsmith.triton_cpu.read.ir import Element, Op, Value

_ORDERS = {"relaxed": "RELAXED", "acquire": "ACQUIRE", "release": "RELEASE", "acq_rel": "ACQ_REL"}
_WITHOUT_RELEASE = {"RELEASE": "RELAXED", "ACQ_REL": "ACQUIRE"}
_UPDATES = {
    "fadd": "old + value",
    "add": "old + value",
    "and": "old & value",
    "or": "old | value",
    "xor": "old ^ value",
    "exch": "value",
    "xchg": "value",
    "max": "ks_larger(old, value)",
    "min": "ks_smaller(old, value)",
    "umax": "ks_larger(old, value)",
    "umin": "ks_smaller(old, value)",
}
_ROW_UPDATES = {
    "fadd": "({} + {})",
    "add": "({} + {})",
    "and": "({} & {})",
    "or": "({} | {})",
    "xor": "({} ^ {})",
    "max": "ks_larger({}, {})",
    "min": "ks_smaller({}, {})",
}
_BUILTINS = {"add": "fetch_add", "and": "fetch_and", "or": "fetch_or", "xor": "fetch_xor"} | dict.fromkeys(
    ("exch", "xchg"), "exchange_n"
)
FENCE = "__atomic_thread_fence(__ATOMIC_ACQ_REL);"


def semantics(op: Op) -> str:
    """An atomic's memory semantics in Triton's word; acq_rel, its default, where the text names none."""
    return next((word for word in op.words if word in _ORDERS), "acq_rel")


def _order(op: Op) -> str:
    """The C++ memory order."""
    return _ORDERS[semantics(op)]


def _bits(element: Element) -> str:
    """The unsigned integer that holds an element in memory."""
    return f"u{8 * element.bytes}"


def emit_atomic_rmw(scope: Scope, op: Op) -> None:
    """tt.atomic_rmw: yields the value before the update."""
    kind = op.result.type
    element = kind.element
    word = op.words[0] if op.words else ""
    if word not in _UPDATES or kind.pointer:
        raise UnsupportedConstruct(f"tt.atomic_rmw {word}", "no such atomic operation", op.location)
    if word in _ROW_UPDATES and not scope.uses.users.get(op.result) and _along_a_row(scope, op.operands[0]):
        _row_by_row(scope, op, _ROW_UPDATES[word])
        return
    bits, order = _bits(element), _order(op)
    result = scalar_type(kind.with_shape(()))

    def old(loop: Loop) -> str:
        pointer, value = (uniform_code(evaluate(loop, operand, loop.index)) for operand in op.operands[:2])
        if word in _BUILTINS and not element.is_float and element is not Element.I1:
            return f"({result})__atomic_{_BUILTINS[word]}(({bits} *){pointer}, ({bits}){value}, __ATOMIC_{order})"
        sign = "i" if word in ("max", "min") else "u"
        work = result if element.is_float or element is Element.I1 else f"{sign}{element.bits}"
        step = f"const {work} old = {_from_bits('bits', element, work)}, value = ({work}){value};"
        new = _to_bits(f"({work})({_UPDATES[word]})", element, bits)
        update = f"[&]({bits} bits) -> {bits} {{ {step} return {new}; }}"
        return _from_bits(f"ks_atomic<__ATOMIC_{order}, {bits}>({pointer}, {update})", element, result)

    _lane_by_lane(scope, op, old, mask_at=2)


def _along_a_row(scope: Scope, pointer: Value) -> bool:
    """True if a row of pointers, of whole vectors, is one element after the other and may be updated together."""
    shape, size = pointer.type.shape, pointer.type.element.bytes
    dimension = vector_dimension(shape, scope.isa.lanes)
    if dimension is None or scope.checks or not scope.isa.swaps_16_bytes or size * scope.isa.lanes % 16:
        return False
    index = tuple(Linear("0", 1) if n == dimension else Uniform(f"i{n}") for n in range(len(shape)))
    probes = (Loop(scope, shape, index, full=full, x="0") for full in (True, False))
    reps = [evaluate(probe, pointer, index) for probe in probes]
    return all(isinstance(rep, Linear) and rep.stride == 1 for rep in reps)


def _row_by_row(scope: Scope, op: Op, update: str) -> None:
    kind = op.result.type
    name, size = kind.element.value, kind.element.bytes

    def body(loop: Loop) -> None:
        mask = evaluate(loop, op.operands[2], loop.index) if len(op.operands) > 2 else Uniform("true")
        pointer = evaluate(loop, op.operands[0], loop.index)
        if not isinstance(pointer, Linear):
            raise TypeError("a row of neighbours is linear in every copy of the loop")
        value = loop.as_vector(evaluate(loop, op.operands[1], loop.index), kind)
        new = update.format(f"ks_load_{name}(from)", value)
        new = f"ks_round_{name}({new})" if kind.element.is_half else new
        chosen = "" if mask == Uniform("true") else f"{loop.as_vector(mask, kind.with_element(Element.I1))}, "
        step = f"[&](const char *from, char *to) {{ ks_store_{name}(to, {new}); }}"
        loop.body.append(f"ks_update<u{8 * size}>({loop.address(pointer, size)}, {chosen}{step});")

    for load in scope.uses.loads_below(op.operands, set(scope.arrays)):
        materialise(scope, load.result)
    emit_nest(scope, kind.shape, body, grouped=False)


def emit_atomic_cas(scope: Scope, op: Op) -> None:
    """tt.atomic_cas: compares bit patterns, as the hardware does."""
    kind = op.result.type
    element = kind.element
    bits, order = _bits(element), _order(op)
    orders = f"__ATOMIC_{order}, __ATOMIC_{_WITHOUT_RELEASE.get(order, order)}"

    def old(loop: Loop) -> str:
        pointer, expected, wanted = (uniform_code(evaluate(loop, operand, loop.index)) for operand in op.operands[:3])
        values = f"{_to_bits(expected, element, bits)}, {_to_bits(wanted, element, bits)}"
        call = f"ks_swap_if<{orders}, {bits}>({pointer}, {values})"
        return _from_bits(call, element, scalar_type(kind.with_shape(())))

    _lane_by_lane(scope, op, old, mask_at=3)


def emit_atomic_load(scope: Scope, op: Op) -> None:
    """tt.atomic_load; masked-off elements are 0."""
    kind = op.result.type
    bits, order = _bits(kind.element), _order(op)

    def value(loop: Loop) -> str:
        pointer = uniform_code(evaluate(loop, op.operands[0], loop.index))
        call = f"__atomic_load_n((const {bits} *){pointer}, __ATOMIC_{order})"
        return _from_bits(call, kind.element, scalar_type(kind.with_shape(())))

    _lane_by_lane(scope, op, value, mask_at=1)


def emit_atomic_store(scope: Scope, op: Op) -> None:
    """tt.atomic_store."""
    element = op.operands[1].type.element
    bits, order = _bits(element), _order(op)

    def store(loop: Loop) -> str:
        pointer, value = (uniform_code(evaluate(loop, operand, loop.index)) for operand in op.operands[:2])
        return f"__atomic_store_n(({bits} *){pointer}, {_to_bits(value, element, bits)}, __ATOMIC_{order})"

    _lane_by_lane(scope, op, store, mask_at=2)


def emit_atomic_poll(scope: Scope, op: Op) -> None:
    """tt.atomic_poll: waits, element by element, for a value; False where the time that all share ran out first."""
    element = op.operands[1].type.element
    bits, order = _bits(element), _order(op)
    scope.waits = True
    deadline = scope.fresh("deadline")
    limit = f"ks_now() + {scope.scalars[op.operands[2]]}" if len(op.operands) > 2 else "~0ul"
    scope.write(f"const u64 {deadline} = {limit};")

    def found(loop: Loop) -> str:
        pointer, wanted = (uniform_code(evaluate(loop, operand, loop.index)) for operand in op.operands[:2])
        watched = "" if scope.checks is None else scope.checks.watched(op)
        return f"ks_poll<__ATOMIC_{order}, {bits}>({watched}{pointer}, {_to_bits(wanted, element, bits)}, {deadline})"

    _lane_by_lane(scope, op, found, mask_at=len(op.operands))


def emit_barrier(scope: Scope, op: Op) -> None:
    """tl.debug_barrier: a program instance is one thread here, so only the order of its accesses is left to keep."""
    scope.write(FENCE)


def is_volatile(op: Op) -> bool:
    """True for a load that must look at memory in its place: `volatile=True` or `cache_modifier=".cv"`."""
    if op.name != "tt.load":
        return False
    modifiers = op.text("cacheModifier"), op.text("cachePolicy")
    return bool(op.integer("isVolatile")) or modifiers[0] == "cv" or "cache_modifier=cv" in modifiers[1]


def _from_bits(code: str, element: Element, work: str) -> str:
    if element.is_half:
        return f"ks_widen_{element.value}({code})"
    return f"ks_{element.value}_of({code})" if element.is_float else f"({work}){code}"


def _to_bits(code: str, element: Element, bits: str) -> str:
    if element.is_half:
        return f"ks_narrow_{element.value}({code})"
    return f"ks_bits_of({code})" if element.is_float else f"({bits}){code}"


def _lane_by_lane(scope: Scope, op: Op, act: Callable[[Loop], str], mask_at: int) -> None:
    """Run an atomic on every element in order; what it yields goes into an array if anybody reads it."""
    value = op.results[0] if op.results and scope.uses.users.get(op.results[0]) else None
    for load in scope.uses.loads_below(op.operands, set(scope.arrays)):
        materialise(scope, load.result)
    home = ""
    if value is not None and value.type.shape:
        home = scope.array(value.type, value.name)
    elif value is not None:
        home = scope.fresh(value.name)
        scope.write(f"{scalar_type(value.type)} {home} = 0;")

    def body(loop: Loop) -> None:
        mask = uniform_code(evaluate(loop, op.operands[mask_at], loop.index)) if len(op.operands) > mask_at else "true"
        after = ""
        if scope.checks is not None:
            pointer = uniform_code(evaluate(loop, op.operands[0], loop.index))
            mask, after = scope.checks.atomic(loop, op, pointer, mask)
        guard = "" if mask == "true" else f"if ({mask}) "
        call = act(loop)
        if value is None:
            loop.body.append(f"{guard}{{ (void){call}; {after} }}")
        elif value.type.shape:
            name = scope.fresh("old")
            loop.body.append(f"{scalar_type(value.type.with_shape(()))} {name} = 0;")
            loop.body.append(f"{guard}{{ {name} = {call}; {after} }}")
            write_array(loop, home, value.type, loop.index, Uniform(name))
        else:
            loop.body.append(f"{guard}{{ {home} = {call}; {after} }}")

    emit_nest(scope, op.operands[0].type.shape, body, vectors=False)
    if value is not None:
        (scope.arrays if value.type.shape else scope.scalars)[value] = home
