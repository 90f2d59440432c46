"""Loop nests over a tensor's elements.

A nest runs scalar loops over every dimension but one, and that one, the last that is longer than 1, in steps of KS_W
where its size allows. The body is emitted twice when prefix masks occur: once for the x below every mask's count,
where masks are known to hold, and once for the rest, with masks. Code that does not depend on x stands before the x
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kernelsmith.triton_cpu.ir import Element, Type, Value
from kernelsmith.triton_cpu.names import scalar_type, vector_type
from kernelsmith.triton_cpu.reps import Linear, Offsets, Prefix, Rep, Uniform, Vector

if TYPE_CHECKING:
    from kernelsmith.triton_cpu.scope import Scope

Index = tuple[Rep, ...]


class Loop:
    """One copy of a loop body while it is being emitted.

    Attributes:
        extent: how far x runs.
        head: lines before the x loop that set up what it accumulates.
        pre: lines before the x loop for values that do not depend on x; the body itself in a loop without vectors.
        limits: i64 expressions; the body is right only for x below all of them.
        fused: values whose arrays this loop fills on the way.
        last: an i64 expression; from there on the body does nothing (None: it runs to the end).
    """

    def __init__(self, scope: Scope, shape: tuple[int, ...], index: Index, *, full: bool, x: str | None) -> None:
        self.extent = next((size for at, size in zip(index, shape, strict=True) if isinstance(at, Linear)), 1)
        self.scope = scope
        self.shape = shape
        self.index = index
        self.full = full
        self.x = x
        self.head: list[str] = []
        self.body: list[str] = []
        self.pre: list[str] = self.body if x is None else []
        self.limits: dict[str, None] = {}
        self.fused: dict[Value, None] = {}
        self.last: str | None = None
        self.same_for_all_x: dict[tuple[Value, Index], Rep] = {}
        self.in_body: dict[tuple[Value, Index], Rep] = {}

    def tail(self) -> Loop:
        """The second copy, for the x that the limits leave over."""
        other = Loop(self.scope, self.shape, self.index, full=False, x=self.x)
        other.pre = self.pre
        other.same_for_all_x = {
            key: rep for key, rep in self.same_for_all_x.items() if isinstance(rep, Uniform) and rep.code != "true"
        }
        return other

    def recall(self, value: Value, index: Index) -> Rep | None:
        key = (value, index)
        return self.in_body.get(key) or self.same_for_all_x.get(key)

    def remember(self, value: Value, index: Index, rep: Rep) -> Rep:
        kept = self.in_body if isinstance(rep, Vector | Offsets) or self.limits else self.same_for_all_x
        kept[(value, index)] = rep
        return rep

    def scalar(self, kind: Type, code: str, name: str = "s") -> str:
        """Name a scalar that is the same for all x; constants and names stay as they are."""
        if code.replace("_", "").isalnum():
            return code
        variable = self.scope.fresh(name)
        self.pre.append(f"const {scalar_type(kind)} {variable} = {code};".replace("const char *", "char *const "))
        return variable

    def count(self, code: str) -> str:
        """Name an i64 that is the same for all x."""
        return self.scalar(Type(Element.I64), code, "count")

    def vector(self, kind: Type, code: str, name: str = "t") -> Vector:
        """Name a vector of this iteration."""
        variable = self.scope.fresh(name)
        self.body.append(f"const {vector_type(kind)} {variable} = {code};")
        return Vector(variable)

    def require(self, count: str) -> None:
        """From here on the body is right only for x < count."""
        self.limits[count] = None

    def as_vector(self, rep: Rep, kind: Type) -> str:
        """The KS_W lanes of an integer, float or predicate."""
        target = vector_type(kind)
        if isinstance(rep, Vector):
            return rep.code
        if isinstance(rep, Linear):
            wide = kind.element if kind.element.bits >= 32 else Element.I32
            stride = f"({wide.value}){rep.stride}"
            start = f"({wide.value})({self._at_x(rep, wide)})"
            ramp = f"ks_ramp({start}, {stride})"
            return ramp if wide is kind.element else f"__builtin_convertvector({ramp}, {target})"
        if isinstance(rep, Prefix):
            return f"ks_first({rep.count} - {self.x})"
        if isinstance(rep, Uniform):
            code = f"-(i32){rep.code}" if kind.is_predicate else rep.code
            return f"ks_splat<{target}>({code})"
        raise TypeError("pointers have no plain lanes")

    def _at_x(self, rep: Linear, element: Element) -> str:
        unsigned = f"u{element.bits}"
        return f"({unsigned}){rep.base} + ({unsigned}){rep.stride} * ({unsigned}){self.x}"

    def address(self, rep: Linear, size: int) -> str:
        """Address of element x of a linear pointer, for elements of `size` bytes."""
        stride = size * rep.stride if isinstance(rep.stride, int) else f"{size} * (i64){rep.stride}"
        return f"{rep.base} + {stride} * {self.x}"


Body = Callable[[Loop], None]


def vector_dimension(shape: tuple[int, ...], lanes: int) -> int | None:
    """The dimension to walk in vectors: the last one longer than 1, if whole vectors fill it."""
    long = [number for number, size in enumerate(shape) if size > 1]
    return long[-1] if long and shape[long[-1]] % lanes == 0 else None


def emit_nest(
    scope: Scope,
    shape: tuple[int, ...],
    body: Body,
    *,
    before: Body | None = None,
    after: Body | None = None,
    vectors: bool = True,
    along: int | None = None,
) -> Loop:
    """Emit loops over `shape`.

    `before` and `after` surround the innermost loop, once per row. Without `vectors`, elements go one by one; `along`
    picks another dimension to walk in vectors, which whole vectors must fill.
    """
    dimension = vector_dimension(shape, scope.isa.lanes) if vectors and along is None else along
    inner = dimension if dimension is not None else max((n for n, size in enumerate(shape) if size > 1), default=None)
    variables = [scope.fresh("i") if size > 1 else "0" for size in shape]
    index: list[Rep] = [Uniform(variable) for variable in variables]
    x = None
    if dimension is not None:
        x = variables[dimension]
        index[dimension] = Linear("0", 1)
    main = Loop(scope, shape, tuple(index), full=dimension is not None, x=x)
    if before is not None:
        before(main)
    body(main)
    copies = [main]
    if main.limits:
        copies.append(main.tail())
        body(copies[1])
    for value in main.fused:
        if all(value in copy.fused for copy in copies) and value in scope.planned:
            scope.arrays[value] = scope.planned.pop(value)
    closing = Loop(scope, shape, tuple(index), full=False, x=None)
    if after is not None:
        after(closing)
    with scope.nested():
        outer = [n for n, size in enumerate(shape) if size > 1 and n != inner]
        for number in outer:
            scope.open(
                f"for (i32 {variables[number]} = 0; {variables[number]} < {shape[number]}; ++{variables[number]}) {{"
            )
        scope.write(*main.head)
        if inner is None:
            scope.write(*main.body)
        elif x is None:
            name = variables[inner]
            _inner_loop(scope, f"for (i32 {name} = 0; {name} < {shape[inner]}; ++{name}) {{", main)
        else:
            scope.write(*main.pre)
            _vector_loops(scope, x, shape[inner], copies)
        scope.write(*closing.body)
        for _ in outer:
            scope.close()
    return main


def _inner_loop(scope: Scope, header: str, loop: Loop) -> None:
    scope.open(header)
    scope.write(*loop.body)
    scope.close()


def _vector_loops(scope: Scope, x: str, size: int, copies: list[Loop]) -> None:
    main = copies[0]
    if len(copies) == 1:
        _inner_loop(scope, f"for (i64 {x} = 0; {x} < {size}; {x} += KS_W) {{", main)
        return
    full, end = scope.fresh("full"), scope.fresh("end")
    scope.write(f"i64 {full} = {size};")
    for limit in main.limits:
        scope.write(f"if ({limit} < {full}) {full} = {limit};")
    scope.write(f"{full} = {full} < 0 ? 0 : {full} & -KS_W;", f"i64 {x} = 0;")
    _inner_loop(scope, f"for (; {x} < {full}; {x} += KS_W) {{", main)
    tail = copies[1]
    last = tail.last if tail.last is not None and not tail.fused else None
    bound = f"const i64 {end} = {last} < {size} ? {last} : {size};" if last else f"const i64 {end} = {size};"
    scope.write(bound)
    _inner_loop(scope, f"for (; {x} < {end}; {x} += KS_W) {{", tail)


@contextmanager
def braces(scope: Scope, header: str) -> Iterator[None]:
    """Lines written inside stand in a C++ block."""
    scope.open(header)
    yield
    scope.close()
