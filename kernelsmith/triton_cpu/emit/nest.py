"""Loop nests over a tensor's elements: which dimension is walked in vectors, and how far each copy of the body runs.

With prefix masks about, a row has three parts: whole vectors below every mask's count, where masks are known to hold;
the rest up to the last vector that any mask reaches, with masks; and what lies past all masks, where every element is
alike, so that a reduction needs one look at it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from kernelsmith.triton_cpu.emit.loop import Loop, Varies
from kernelsmith.triton_cpu.emit.memory import write_array
from kernelsmith.triton_cpu.emit.names import scalar_type
from kernelsmith.triton_cpu.emit.reps import Digit, Linear, Rep, Uniform
from kernelsmith.triton_cpu.emit.scope import Scope

Body = Callable[[Loop], None]
_UNROLL = 4
_SHORT = 8


@dataclass(frozen=True)
class Accumulator:
    """A vector that every iteration of a row adds to, by which the row's iterations wait for each other.

    Short loops use several of them in turn: `declaration` makes one under another name, `merge` combines two.
    """

    name: str
    declaration: Callable[[str], str]
    merge: Callable[[str, str], str]


@dataclass(frozen=True)
class Row:
    """What else happens in each row: code `before` and `after` the innermost loop, and what it accumulates.

    `ending` stands for the body past all masks; it is given the number of elements there.
    """

    before: Body | None = None
    after: Body | None = None
    ending: Callable[[Loop, str], None] | None = None
    accumulator: Accumulator | None = None


@dataclass(frozen=True)
class _Inner:
    """The innermost loop: its variable, its size, the name of its end, and its copies."""

    x: str
    size: int
    end: str
    main: Loop
    tail: Loop | None
    past: Loop | None
    accumulator: Accumulator | None


_PLAIN = Row()


def vector_dimension(shape: tuple[int, ...], lanes: int) -> int | None:
    """The dimension to walk in vectors: the last one longer than 1, if whole vectors fill it."""
    long = [number for number, size in enumerate(shape) if size > 1]
    return long[-1] if long and shape[long[-1]] % lanes == 0 else None


def _walked(shape: tuple[int, ...], lanes: int, *, grouped: bool) -> tuple[int, ...]:
    """The dimensions to walk in vectors: one, or with `grouped` several if the last is shorter than a vector."""
    dimension = vector_dimension(shape, lanes)
    if dimension is not None:
        return (dimension,)
    long = [number for number, size in enumerate(shape) if size > 1]
    if not grouped or not long or shape[long[-1]] >= lanes:
        return ()
    for first in range(len(long) - 1, -1, -1):
        if math.prod(shape[n] for n in long[first:]) % lanes == 0:
            return tuple(long[first:])
    return ()


def _index_of(shape: tuple[int, ...], walked: tuple[int, ...], variables: list[str]) -> tuple[Rep, ...]:
    """One variable per dimension, but for those that are walked in vectors, which share x."""
    index: list[Rep] = [Uniform(variable) for variable in variables]
    step = 1
    for number in reversed(walked):
        index[number] = Digit(step, shape[number])
        step *= shape[number]
    if len(walked) == 1:
        index[walked[0]] = Linear("0", 1)
    return tuple(index)


def emit_nest(
    scope: Scope,
    shape: tuple[int, ...],
    body: Body,
    *,
    row: Row = _PLAIN,
    vectors: bool = True,
    grouped: bool = True,
    along: int | None = None,
) -> None:
    """Emit loops over `shape`.

    Without `vectors`, elements go one by one; without `grouped`, or with a `row`, a vector stays within one dimension.
    `along` picks another dimension to walk in vectors, which whole vectors must fill.
    """
    walked = _walked(shape, scope.isa.lanes, grouped=grouped and row is _PLAIN) if vectors else ()
    walked = walked if along is None else (along,)
    inner = walked or tuple(n for n, size in enumerate(shape) if size > 1)[-1:]
    variables = [scope.fresh("i") if size > 1 else "0" for size in shape]
    x = variables[inner[-1]] if walked else None
    index = _index_of(shape, walked, variables)
    main = Loop(scope, shape, index, full=bool(walked), x=x)
    if row.before is not None:
        row.before(main)
    body(main)
    tail = main.tail() if main.limits else None
    if tail is not None:
        body(tail)
    end = scope.fresh("end")
    size = math.prod(shape[number] for number in inner)
    past = _try_ending(main, row.ending, f"({size} - {end})") if x is not None and row.ending is not None else None
    _keep_fused(scope, main, tail, past, end)
    closing = Loop(scope, shape, index, full=False, x=None)
    if row.after is not None:
        row.after(closing)
    with scope.nested():
        outer = [n for n, extent in enumerate(shape) if extent > 1 and n not in inner]
        for number in outer:
            name = variables[number]
            scope.open(f"for (i32 {name} = 0; {name} < {shape[number]}; ++{name}) {{")
        scope.write(*main.head)
        if not inner:
            scope.write(*main.body)
        elif x is None:
            name = variables[inner[-1]]
            _inner_loop(scope, f"for (i32 {name} = 0; {name} < {size}; ++{name}) {{", main)
        else:
            scope.write(*main.pre)
            _emit_row(scope, _Inner(x, size, end, main, tail, past, row.accumulator))
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


def _emit_row(scope: Scope, row: _Inner) -> None:
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
    full = end
    if row.tail is not None:
        full = scope.fresh("full")
        scope.write(f"i64 {full} = {end};")
        scope.write(*(f"if ({limit} < {full}) {full} = {limit};" for limit in row.main.limits))
        scope.write(f"{full} = {full} < 0 ? 0 : {full} & -KS_W;")
    _emit_unrolled(scope, row, full)
    if row.tail is not None:
        _inner_loop(scope, f"for (; {x} < {full}; {x} += KS_W) {{", row.main)
    _inner_loop(scope, f"for (; {x} < {end}; {x} += KS_W) {{", row.tail if row.tail is not None else row.main)
    if row.past is not None:
        _inner_loop(scope, f"if ({end} < {row.size}) {{", row.past)


def _emit_unrolled(scope: Scope, row: _Inner, full: str) -> None:
    """Most of a row with several accumulators in turn, where a step is so short that it would wait for the last."""
    accumulator, x, body = row.accumulator, row.x, row.main.body
    if accumulator is None or len(body) > _SHORT or row.size < 2 * _UNROLL * scope.isa.lanes:
        return
    names = [accumulator.name, *(scope.fresh(accumulator.name) for _ in range(_UNROLL - 1))]
    scope.write(*(accumulator.declaration(name) for name in names[1:]))
    step = scope.fresh("step")
    scope.open(f"for (; {x} + {_UNROLL} * KS_W <= {full}; {x} += {_UNROLL} * KS_W) {{")
    pattern = re.compile(rf"\b(?:{re.escape(accumulator.name)}|{re.escape(x)})\b")
    for number, name in enumerate(names):
        here = {accumulator.name: name, x: step}
        with scope.nested():
            scope.write(f"const i64 {step} = {x} + {number} * KS_W;")
            scope.write(*(_renamed(line, pattern, here) for line in body))
    scope.close()
    while len(names) > 1:
        half = len(names) // 2
        scope.write(*(accumulator.merge(names[n], names[n + half]) for n in range(half)))
        names = names[:half]


def _renamed(line: str, pattern: re.Pattern[str], names: dict[str, str]) -> str:
    return pattern.sub(lambda match: names[match.group()], line)
