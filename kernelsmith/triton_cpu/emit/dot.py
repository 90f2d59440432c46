"""tt.dot: find the operands, pack them into units, multiply in register blocks."""

from __future__ import annotations

from dataclasses import dataclass

from kernelsmith.triton_cpu.emit.dot_plan import Blocking, Scheme, blocking, scheme
from kernelsmith.triton_cpu.emit.dot_source import Matrix, Stride, locate
from kernelsmith.triton_cpu.emit.evaluate import evaluate
from kernelsmith.triton_cpu.emit.loop import Index, Loop
from kernelsmith.triton_cpu.emit.memory import read_array, write_array
from kernelsmith.triton_cpu.emit.names import array_element
from kernelsmith.triton_cpu.emit.nest import emit_nest
from kernelsmith.triton_cpu.emit.reps import Rep, Uniform
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.errors import UnsupportedConstruct
from kernelsmith.triton_cpu.read.ir import Dense, Element, Op, Type, Value

_UNPACKED_BLOCKS = 2
"""With this many blocks of rows or fewer, b is read where it lies: packing would not pay."""
_SUMMED_IN = {Element.F16: Element.F32, Element.BF16: Element.F32}


def emit_dot(scope: Scope, op: Op) -> None:
    """One product, or a batch of them one after the other."""
    a, b, start = op.operands[:3]
    kind = op.result.type
    *batch, rows, depth = a.type.shape
    columns = b.type.shape[-1]
    how = scheme(scope.isa, a.type.element, b.type.element, kind.element, rows, depth, columns)
    if _SUMMED_IN.get(kind.element, kind.element) is not how.total:
        raise UnsupportedConstruct(
            f"tt.dot into {kind.element.value}", "it accumulates in f16, bf16, f32, f64 or i32", op.location
        )
    scope.multiplies = True
    totals = kind.with_element(how.total)
    home = scope.in_place.get(op) or scope.array(totals, op.result.name)
    fresh = scope.arrays.get(start) != home and is_zero(scope, start)
    if not fresh and scope.arrays.get(start) != home:
        emit_nest(scope, kind.shape, lambda loop: _copy(loop, start, home, totals))
    product = _Product(scope, op, how, blocking(scope.isa, how, rows, columns), fresh)
    variables = [scope.fresh("batch") for _ in batch]
    for name, size in zip(variables, batch, strict=True):
        scope.open(f"for (i32 {name} = 0; {name} < {size}; ++{name}) {{")
    with scope.region("{"):
        part = " * ".join(str(size) for size in (rows, columns, how.total.bytes))
        place = "0"
        for name, size in zip(variables, batch, strict=True):
            place = f"({place} * {size} + {name})" if place != "0" else name
        product.emit(tuple(Uniform(name) for name in variables), f"{home} + (i64){place} * {part}" if batch else home)
    for _ in batch:
        scope.close()
    scope.arrays[op.result] = _narrowed(scope, kind, home, totals)


def is_zero(scope: Scope, value: Value) -> bool:
    """Whether a tensor is known to be +0 throughout."""
    op = scope.definition(value)
    while op is not None and op.name == "tt.splat":
        op = scope.definition(op.operands[0])
    if op is None or op.name != "arith.constant":
        return False
    constant = op.attributes["value"]
    return isinstance(constant, Dense) and not any(constant.bits)


@dataclass(frozen=True)
class _Packed:
    """An operand as `cpp/dot.h` takes it: where it is, bytes to the next row (a) or panel (b), bytes to the next unit,
    and the exponent of its smallest element where the arithmetic asks for it."""

    pointer: str
    outer: str
    inner: str
    least: str = ""


class _Product:
    """The emission of one product."""

    def __init__(self, scope: Scope, op: Op, how: Scheme, block: Blocking, fresh: bool) -> None:
        self._scope = scope
        self._op = op
        self._how = how
        self._block = block
        self._fresh = fresh
        self._rows, self._depth = op.operands[0].type.shape[-2:]
        self._columns = op.operands[1].type.shape[-1]
        self._steps = self._depth // how.per

    def emit(self, batch: Index, home: str) -> None:
        """Pack both operands and call what multiplies them."""
        a, b = (locate(self._scope, operand, self._how.stored, batch) for operand in self._op.operands[:2])
        left, right = self._left(a), self._right(b)
        block, step = self._block, self._how.step
        sizes = f"{self._rows}, {self._columns}, {self._depth}, {block.rows}, {block.vectors}, {block.lanes}"
        sizes += f", {str(self._fresh).lower()}"
        where = f"{left.pointer}, {left.outer}, {left.inner}"
        if step == "bf16":
            wide = self._room(4 * self._depth * (self._rows + self._columns))
            call = f"{where}, {left.least}, {right.pointer}, {right.least}, {home}, {wide}, {self._coarse()}"
            self._scope.write(f"ks_multiply_bf16<{sizes}>({call});")
        elif step == "i8":
            wide = self._room(self._depth * self._rows)
            self._scope.write(f"ks_multiply_i8<{sizes}>({where}, {right.pointer}, {home}, {wide});")
        else:
            panels = f"{right.pointer}, {right.outer}, {right.inner}"
            self._scope.write(f"ks_multiply<ks_{step}_step, {sizes}>({where}, {panels}, {home});")

    def _room(self, count: int) -> str:
        return self._scope.array(Type(Element.I8, (count,)), "wide")

    def _coarse(self) -> str:
        """The variable that says whether the totals are known to be far from denormals."""
        known = self._scope.coarse.get(self._op)
        if known is None:
            known = self._scope.fresh("coarse")
            self._scope.write(f"bool {known} = false;")
        return known

    def _left(self, a: Matrix) -> _Packed:
        size, (down, along) = self._how.stored.bytes, a.strides
        if along != 1 and self._how.per > 1:
            packed, least = self._interleaved(a.pointer, along, self._rows, self._rows)
            return _Packed(packed, str(self._how.unit_bytes), str(self._how.unit_bytes * self._rows), least)
        row, step = f"{size} * (i64){down}", f"{size * self._how.per} * (i64){along}"
        least = f"ks_least<u16, {self._rows}, {self._depth * size}>({a.pointer}, {row})"
        return _Packed(a.pointer, row, step, least)

    def _right(self, b: Matrix) -> _Packed:
        panel, unit, (down, along) = self._block.panel, self._how.unit_bytes, b.strides
        few = self._rows <= _UNPACKED_BLOCKS * self._block.rows
        if self._how.per == 1 and along == 1 and few:
            return _Packed(b.pointer, str(panel * unit), f"{unit} * (i64){down}")
        if along == 1:
            packed, least = self._interleaved(b.pointer, down, self._columns, panel)
        else:
            packed, least = self._turned(b.pointer, along, panel)
        return _Packed(packed, str(self._steps * panel * unit), str(panel * unit), least)

    def _interleaved(self, pointer: str, stride: Stride, across: int, panel: int) -> tuple[str, str]:
        """Panels from rows along K, in which the other dimension is contiguous; and their smallest exponent."""
        stored = self._how.stored
        packed = self._scope.array(Type(stored, (self._depth, across)), "packed")
        element = f"u{8 * stored.bytes}" if self._how.per > 1 else stored.value
        sizes = f"{element}, {self._how.per}, {self._depth}, {across}, {panel}, {min(panel, self._block.lanes)}"
        least = self._scope.fresh("least")
        call = f"ks_interleave<{sizes}>({pointer}, {stored.bytes} * (i64){stride}, {packed})"
        self._scope.write(f"const u32 {least} = {call};")
        return packed, least

    def _turned(self, pointer: str, stride: Stride, panel: int) -> tuple[str, str]:
        """The same from rows of the other dimension, in which K is contiguous."""
        stored = self._how.stored
        packed = self._scope.array(Type(stored, (self._depth, self._columns)), "packed")
        sizes = f"{self._how.unit}, {self._steps}, {self._columns}, {panel}"
        self._scope.write(f"ks_turn<{sizes}>({pointer}, {stored.bytes} * (i64){stride}, {packed});")
        return packed, f"ks_least<u16, 1, {self._depth * self._columns * stored.bytes}>({packed}, 0)"


def _copy(loop: Loop, start: Value, home: str, totals: Type) -> None:
    write_array(loop, home, totals, loop.index, evaluate(loop, start, loop.index))


def _narrowed(scope: Scope, kind: Type, home: str, totals: Type) -> str:
    """Sums in float32 rounded once to the result's 16 bits."""
    if array_element(kind) is totals.element:
        return home
    narrow = scope.array(kind, home)

    def body(loop: Loop) -> None:
        rep: Rep = read_array(loop, home, totals, loop.index)
        function = f"ks_round_{kind.element.value}"
        if isinstance(rep, Uniform):
            rep = Uniform(f"{function}({rep.code})")
        else:
            rep = loop.vector(kind, f"{function}({loop.as_vector(rep, totals)})")
        write_array(loop, narrow, kind, loop.index, rep)

    emit_nest(scope, kind.shape, body)
    return narrow
