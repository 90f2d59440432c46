"""What a checked build emits around each access: who may do it, what masked-off lanes hold, whether an offset wrapped.

The generated code asks the inline tests of cpp/checked.h and does the access for the lanes that may. The emitters of
loads, stores, atomics and divisions call `Scope.checks` where it is set; `exact` computes offsets without wrapping.
"""

from __future__ import annotations

from kernelsmith.triton_cpu.emit import affine, exact
from kernelsmith.triton_cpu.emit.atomics import semantics
from kernelsmith.triton_cpu.emit.evaluate import evaluate
from kernelsmith.triton_cpu.emit.loop import Index, Loop
from kernelsmith.triton_cpu.emit.memory import addresses, place_of
from kernelsmith.triton_cpu.emit.messages import unescape
from kernelsmith.triton_cpu.emit.names import stored, vector_type
from kernelsmith.triton_cpu.emit.reps import Linear, Rep, Uniform
from kernelsmith.triton_cpu.emit.sites import Accesses, Sites
from kernelsmith.triton_cpu.read.ir import Element, Op, Type, Value

ORDERS = {"relaxed": 0, "acquire": 1, "release": 2, "acq_rel": 3}
"""KsOrder of cpp/checked_abi.h by Triton's words."""

_NUMBERS = {element: number for number, element in enumerate(Element)}
_TRUE = Uniform("true")
_LOAD, _VOLATILE = 0, 1
_PREDICATE, _WIDE = Type(Element.I1), Type(Element.I64)


class Checks:
    """The checks of one kernel; `sites` are the operations that they name."""

    def __init__(self, sites: Sites) -> None:
        self.sites = sites
        self._loaded: set[int] = set()
        self._stored: set[int] = set()
        self._stamped = self._synchronises = self._patterned = False

    def accesses(self) -> Accesses:
        """What the emitted code does, for whoever prepares the shadows."""
        loads, stores = tuple(sorted(self._loaded)), tuple(sorted(self._stored))
        return Accesses(loads, stores, self._stamped, self._synchronises, self._patterned)

    def load(self, loop: Loop, op: Op, index: Index, pointer: Rep, mask: Rep) -> Rep:
        """tt.load. Where the kernel gives no `other`, masked-off lanes hold the monitor's pattern."""
        kind, plain = op.result.type, op.integer("isVolatile") == 0
        site, view = self._site(op), self._view(op.operands[0], self._loaded)
        self._patterned |= 1 < len(op.operands) < 3
        other = evaluate(loop, op.operands[2], index) if len(op.operands) > 2 else None
        lane = _lane(loop, index, op.operands[0].type.shape)
        self._check_offsets(loop, op, index, mask, lane)
        if isinstance(pointer, Uniform) and isinstance(mask, Uniform) and (other is None or isinstance(other, Uniform)):
            default = other.code if isinstance(other, Uniform) else _masked(site, kind)
            chosen, place = " && ".join([*loop.reached(), mask.code]), "-1" if loop.x is not None else _first(lane)
            access = f"{view}, {_LOAD if plain else _VOLATILE}, {site}, {pointer.code}, {chosen}, {place}"
            read = f"ks_get_{stored(kind.element).value}({pointer.code})"
            code = f"(ks_may_read<{kind.element.bytes}>(check, {access}) ? {read} : {default})"
            return Uniform(loop.scalar(kind.with_shape(()), code, op.result.name))
        chosen = _chosen(loop, mask)
        default = f"ks_load_{stored(kind.element).value}({_pattern(site, kind)})"
        if other is not None:
            default = loop.as_vector(other, kind)
        elif mask != _TRUE:
            chosen = loop.vector(_PREDICATE, chosen, "chosen").code
            loop.body.append(f"ks_note(check, {site}, {chosen});")
        place, lanes = place_of(loop, pointer, kind)
        if isinstance(pointer, Linear) and pointer.stride == 1 and plain:
            read = f"ks_load_{stored(kind.element).value}({place}"
            every = f"[&] {{ return {read}); }}" if mask == _TRUE else chosen
            access = f"{view}, {site}, {place}" + (f", {lane}, {every}" if mask == _TRUE else f", {chosen}, {lane}")
            some = f"[&](vi32 may) {{ return {read}, may, {default}); }}"
            return loop.vector(kind, f"ks_load_row<{kind.element.bytes}>(check, {access}, {some})", op.result.name)
        where = loop.vector(_WIDE, addresses(loop, pointer, kind.element.bytes), "where").code
        access = f"{view}, {_LOAD if plain else _VOLATILE}, {site}, {where}, {chosen}, {lane}"
        allowed = loop.vector(_PREDICATE, f"ks_may_gather<{kind.element.bytes}>(check, {access})", "may").code
        code = f"ks_gather_{stored(kind.element).value}({place}, {lanes}, {allowed}, {default})"
        return loop.vector(kind, code, op.result.name)

    def masked_off(self, loop: Loop, op: Op) -> Rep:
        """What a load without `other` yields where all lanes are known to be masked off."""
        return Uniform(loop.scalar(op.result.type.with_shape(()), _masked(self._site(op), op.result.type), "masked"))

    def store(self, loop: Loop, op: Op, pointer: Rep, rep: Rep, mask: Rep) -> None:
        """tt.store at the loop's own index."""
        kind = op.operands[1].type
        element, size = stored(kind.element).value, kind.element.bytes
        site, view = self._site(op), self._view(op.operands[0], self._stored)
        lane = _lane(loop, loop.index, op.operands[0].type.shape)
        self._stamped |= not _lanes_are_apart(pointer, op.operands[0].type)
        self._check_offsets(loop, op, loop.index, mask, lane)
        if isinstance(pointer, Uniform) and isinstance(mask, Uniform) and isinstance(rep, Uniform):
            value = f"[&](char *t) {{ ks_put_{element}(t, {rep.code}); }}"
            access = f"{view}, {site}, {pointer.code}, {mask.code}, {_first(lane)}, {value}"
            guard = f"if (ks_may_write<{size}>(check, {access})) "
            loop.body.append(f"{guard}ks_put_{element}({pointer.code}, {rep.code});")
            return
        data = loop.vector(kind, loop.as_vector(rep, kind), "data").code
        chosen = _chosen(loop, mask)
        values = f"[&](char *t) {{ ks_store_{element}(t, {data}); }}"
        place, lanes = place_of(loop, pointer, kind)
        if isinstance(pointer, Linear) and pointer.stride == 1:
            every = f", [&] {{ ks_store_{element}({place}, {data}); }}" if mask == _TRUE else ""
            access = f"{view}, {site}, {place}, " + (lane if mask == _TRUE else f"{chosen}, {lane}")
            some = f"[&](vi32 may) {{ ks_store_{element}({place}, may, {data}); }}"
            loop.body.append(f"ks_store_row<{size}>(check, {access}, {values}{every}, {some});")
            return
        where = loop.vector(_WIDE, addresses(loop, pointer, size), "where").code
        may = f"ks_may_scatter<{size}>(check, {view}, {site}, {where}, {chosen}, {lane}, {values})"
        allowed = loop.vector(_PREDICATE, may, "may").code
        loop.body.append(f"ks_scatter_{element}({place}, {lanes}, {allowed}, {data});")

    def atomic(self, loop: Loop, op: Op, pointer: str, mask: str) -> tuple[str, str]:
        """For one element of an atomic: the condition under which it happens, and a statement for after it."""
        site, view = self._site(op), self._view(op.operands[0], self._stored)
        lane = _first(_lane(loop, loop.index, op.operands[0].type.shape))
        order = ORDERS[semantics(op)]
        self._stamped = True
        self._check_offsets(loop, op, loop.index, Uniform(mask), f"{lane}, 0")
        size = op.operands[0].type.element.bytes
        may = f"ks_may_update<{size}>(check, {view}, {site}, {pointer}, {mask}, {lane}, {order})"
        if not loop.scope.uses.users.get(op.result):
            order &= ~ORDERS["acquire"]  # nobody can tell what was there before, so nothing is learnt from it
        self._synchronises |= bool(order & ORDERS["acquire"])
        return may, f"ks_updated<{size}>(check, {pointer}, {order});"

    def row(self, loop: Loop, op: Op, rep: Linear) -> None:
        """Reports consecutive integers that a mask compares, if they wrap before the end of their row."""
        kind = op.operands[0].type
        bits, first = kind.element.bits, affine.number(rep.base)
        if bits == 64 or (first is not None and first + loop.extent <= 1 << (bits - 1)):
            return
        last = f"((i64){rep.base} + {loop.extent - 1})"
        report = f"ks_wrapped_one(check, {self.sites.number(op, kind.shape)}, {last}, (i{bits}){last}, -1)"
        line = f"if (__builtin_expect({last} != (i{bits}){last}, 0)) {report};"
        if line not in loop.pre:
            loop.pre.append(line)

    def picks(self, loop: Loop, op: Op, index: Index, where: Rep, lanes: str) -> None:
        """Reports indices of tt.gather outside of its axis; `lanes` are those of `where` unless it is uniform."""
        kind, size = op.operands[1].type, op.operands[0].type.shape[op.integer("axis")]
        site, lane = self.sites.number(op, kind.shape), _lane(loop, index, kind.shape)
        if not isinstance(where, Uniform):
            wide = lanes if kind.element is Element.I64 else f"__builtin_convertvector({lanes}, vi64)"
            loop.body.append(f"ks_picks(check, {site}, {wide}, {size}, {lane});")
            return
        report = f"ks_missed_one(check, {site}, {where.code}, {size}, -1)"
        line = f"if (__builtin_expect((u64)(i64){where.code} >= {size}ul, 0)) {report};"
        if line not in loop.pre:
            loop.pre.append(line)

    def divisor(self, op: Op, code: str) -> str:
        """A scalar divisor, which is reported if it is zero."""
        return f"ks_divisor(check, {self.sites.number(op, ())}, {code})"

    def quotient(self, loop: Loop, op: Op, code: str, divisor: str) -> str:
        """Lanes of a division: where the divisor is zero, they hold the monitor's pattern."""
        kind = op.result.type
        site = self.sites.number(op, kind.shape)
        self._patterned = True
        zero = loop.vector(_PREDICATE, f"ks_mask({divisor} == 0)", "zero").code
        loop.body.append(f"ks_note(check, {site}, ~{zero});")
        pattern = f"ks_load_{stored(kind.element).value}({_pattern(site, kind)})"
        return f"ks_select({zero}, {pattern}, ({vector_type(kind)})({code}))"

    def assertion(self, loop: Loop, op: Op, condition: str) -> str:
        """A statement that reports a false condition of tt.assert at one element."""
        site = self.sites.number(op, op.operands[0].type.shape, unescape(op.text("text")).decode("utf-8", "replace"))
        lane = _first(_lane(loop, loop.index, op.operands[0].type.shape))
        return f"if (!{condition}) check.context->report(&check, KS_ASSERTION, {site}, {lane}, 0, 0);"

    def goes_on(self, op: Op) -> str:
        """Ends the program instance if the loop `op` would wait for ever."""
        return f"if (!ks_goes_on({self.watched(op)[:-2]})) return;"

    def watched(self, op: Op) -> str:
        """The first arguments of a function that may wait."""
        return f"check, {self.sites.number(op, ())}, "

    def _site(self, op: Op) -> int:
        return self.sites.number(op, op.operands[0].type.shape)

    def views(self) -> list[str]:
        """Declarations of what the emitted code names, for the start of a program instance."""
        used = sorted(self._loaded | self._stored)
        return [f"const KsView {_view_name(number)}(check, {number});" for number in used]

    def _view(self, pointer: Value, used: set[int]) -> str:
        origin = self.sites.origin(pointer)
        used.add(number := -1 if origin is None else origin)
        return _view_name(number)

    def _check_offsets(self, loop: Loop, op: Op, index: Index, mask: Rep, lane: str) -> None:
        """Compare the offsets of an access with what they would be had no integer wrapped."""
        for computed, right, kind in exact.offsets(loop, op.operands[0], index):
            _compare(loop, self._site(op), (computed, right, kind), mask, lane)


def _view_name(number: int) -> str:
    return f"view_{number}" if number >= 0 else "view_anywhere"


def _lanes_are_apart(pointer: Rep, kind: Type) -> bool:
    """Whether no two lanes of a store can have the same address."""
    if not kind.shape:
        return True
    return sum(size > 1 for size in kind.shape) == 1 and isinstance(pointer, Linear) and isinstance(pointer.stride, int)


def _chosen(loop: Loop, mask: Rep) -> str:
    return "ks_all()" if mask == _TRUE else loop.as_vector(mask, _PREDICATE)


def _pattern(site: int, kind: Type) -> str:
    return f"ks_pattern(check, {site}, {_NUMBERS[stored(kind.element)]})"


def _masked(site: int, kind: Type) -> str:
    return f"ks_get_{stored(kind.element).value}(ks_masked(check, {site}, {_NUMBERS[stored(kind.element)]}))"


def _lane(loop: Loop, index: Index, shape: tuple[int, ...]) -> str:
    """`place of lane 0, distance of lanes` in the tile, as code that only reports read; -1 where it is not known."""
    flat = affine.flatten(loop, index, shape) if loop.shape == shape and index == loop.index else None
    if isinstance(flat, Uniform):
        return f"{flat.code}, 0"
    if isinstance(flat, Linear):
        return f"{flat.base} + {flat.stride} * {loop.x}, {flat.stride}"
    return "-1, 0"


def _first(lane: str) -> str:
    return lane.partition(",")[0]


def _compare(loop: Loop, site: int, offsets: tuple[Rep, Rep, Type], mask: Rep, lane: str) -> None:
    computed, right, kind = offsets
    if isinstance(computed, Uniform) and isinstance(right, Uniform):
        chosen = mask.code if isinstance(mask, Uniform) else f"ks_bits({_chosen(loop, mask)})"
        report = f"ks_wrapped_one(check, {site}, {right.code}, (i64){computed.code}, {_first(lane)})"
        loop.body.append(f"if (__builtin_expect((i64){computed.code} != {right.code}, 0) && {chosen}) {report};")
        return
    guard = ""
    if isinstance(computed, Linear) and isinstance(right, Linear) and kind.element.bits < 64:
        narrow = kind.element.value
        last = f"({right.base} + (i64){right.stride} * {loop.extent - 1})"
        small = f"{right.base} == ({narrow}){right.base} && {last} == ({narrow}){last}"
        same = f"(i64){computed.base} == {right.base} && (i64){computed.stride} == (i64){right.stride}"
        guard = f"if (__builtin_expect(!{loop.scalar(_PREDICATE, f'({same} && {small})', 'fits')}, 0)) "
    lanes = loop.as_vector(computed, kind)
    if kind.element is not Element.I64:
        lanes = f"__builtin_convertvector({lanes}, vi64)"
    exact_lanes = loop.as_vector(right, _WIDE)
    loop.body.append(f"{guard}ks_same_offsets(check, {site}, {exact_lanes}, {lanes}, {_chosen(loop, mask)}, {lane});")
