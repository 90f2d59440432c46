"""Loop nests over a tensor's elements: which dimension is walked in vectors, and how far each copy of the body runs.

With prefix masks about, a row has three parts: whole vectors below every mask's count, where masks are known to hold;
the rest up to the last vector that any mask reaches, with masks; and what lies past all masks, where every element is
alike, so that a reduction needs one look at it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kernelsmith.triton_cpu.loop import Loop, Varies
from kernelsmith.triton_cpu.memory import write_array
from kernelsmith.triton_cpu.names import scalar_type
from kernelsmith.triton_cpu.reps import Linear, Rep, Uniform
from kernelsmith.triton_cpu.scope import Scope

Body = Callable[[Loop], None]


@dataclass(frozen=True)
class _Row:
    """The innermost loop: its variable, its size, the name of its end, and its copies."""

    x: str
    size: int
    end: str
    main: Loop
    tail: Loop | None
    past: Loop | None


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
    ending: Callable[[Loop, str], None] | None = None,
    vectors: bool = True,
    along: int | None = None,
) -> None:
    """Emit loops over `shape`.

    `before` and `after` surround the innermost loop, once per row. `ending` stands for the body past all masks; it is
    given the number of elements there. Without `vectors`, elements go one by one; `along` picks another dimension to
    walk in vectors, which whole vectors must fill.
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
    tail = main.tail() if main.limits else None
    if tail is not None:
        body(tail)
    end = scope.fresh("end")
    size = shape[inner] if inner is not None else 1
    past = _try_ending(main, ending, f"({size} - {end})") if x is not None and ending is not None else None
    _keep_fused(scope, main, tail, past, end)
    closing = Loop(scope, shape, tuple(index), full=False, x=None)
    if after is not None:
        after(closing)
    with scope.nested():
        outer = [n for n, extent in enumerate(shape) if extent > 1 and n != inner]
        for number in outer:
            name = variables[number]
            scope.open(f"for (i32 {name} = 0; {name} < {shape[number]}; ++{name}) {{")
        scope.write(*main.head)
        if inner is None:
            scope.write(*main.body)
        elif x is None:
            name = variables[inner]
            _inner_loop(scope, f"for (i32 {name} = 0; {name} < {size}; ++{name}) {{", main)
        else:
            scope.write(*main.pre)
            _emit_row(scope, _Row(x, size, end, main, tail, past))
        scope.write(*closing.body)
        for _ in outer:
            scope.close()


def _try_ending(main: Loop, ending: Callable[[Loop, str], None], rest: str) -> Loop | None:
    """The copy for what lies past all masks, if there are masks and everything is alike past them."""
    past = main.past_the_masks()
    try:
        ending(past, rest)
    except Varies:
        return None
    if not past.past or any(value not in past.endings for value in main.fused):
        return None
    return past


def _keep_fused(scope: Scope, main: Loop, tail: Loop | None, past: Loop | None, end: str) -> None:
    """The arrays that this nest fills are complete after it; remember what they are past the masks."""
    for value in main.fused:
        if value not in scope.planned or (tail is not None and value not in tail.fused):
            continue
        home = scope.planned.pop(value)
        scope.arrays[value] = home
        if past is None:
            continue
        fill = Loop(scope, main.shape, main.index, full=False, x=main.x)
        write_array(fill, home, value.type, main.index, Uniform(past.endings[value]))
        past.body.append(f"for (i64 {main.x} = {end}; {main.x} < {main.extent}; {main.x} += KS_W) {{")
        past.body += [f"  {line}" for line in fill.pre + fill.body]
        past.body.append("}")
        if value.type.count == main.extent:
            count, code = scope.fresh("reach"), scope.fresh("rest")
            scope.write(f"i64 {count};", f"{scalar_type(value.type.with_shape(()))} {code};")
            main.pre_end.append(f"{count} = {end};")
            main.pre_end.append(f"{code} = {past.endings[value]};")
            scope.endings[home] = (count, code)


def _inner_loop(scope: Scope, header: str, loop: Loop) -> None:
    scope.open(header)
    scope.write(*loop.body)
    scope.close()


def _emit_row(scope: Scope, row: _Row) -> None:
    x, end = row.x, row.end
    last = row.tail.last if row.tail is not None and not row.main.fused else None
    fixed = last is None and row.past is None
    scope.write(f"{'const ' if fixed else ''}i64 {end} = {row.size};")
    if row.past is not None and row.past.past:
        first, *others = row.past.past
        scope.write(f"{end} = {first} < 0 ? 0 : {first};")
        scope.write(*(f"if ({count} > {end}) {end} = {count};" for count in others))
        scope.write(f"{end} = {end} + (KS_W - 1) & -KS_W;", f"if ({end} > {row.size}) {end} = {row.size};")
        scope.write(*row.main.pre_end)
    elif last is not None:
        scope.write(f"if ({last} < {end}) {end} = {last};")
    scope.write(f"i64 {x} = 0;")
    if row.tail is not None:
        full = scope.fresh("full")
        scope.write(f"i64 {full} = {end};")
        scope.write(*(f"if ({limit} < {full}) {full} = {limit};" for limit in row.main.limits))
        scope.write(f"{full} = {full} < 0 ? 0 : {full} & -KS_W;")
        _inner_loop(scope, f"for (; {x} < {full}; {x} += KS_W) {{", row.main)
    _inner_loop(scope, f"for (; {x} < {end}; {x} += KS_W) {{", row.tail if row.tail is not None else row.main)
    if row.past is not None:
        _inner_loop(scope, f"if ({end} < {row.size}) {{", row.past)
