"""Which cases to try, most revealing first.

Tuned workloads, then sizes away from them (1, 2, primes, powers of two and block sizes and their neighbours, one long
dim at a time), crossed with dtypes, layouts and kinds of contents so that every alternative occurs and few cases repeat
a combination; from the full level on, every two alternatives meet. Called by the judge; the lists depend only on their
arguments.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelsmith.errors import USER_ERRORS
from kernelsmith.evaluate.truth.alternatives import Alternatives
from kernelsmith.evaluate.truth.contents import Values
from kernelsmith.evaluate.truth.covering import Alternative, covering
from kernelsmith.evaluate.truth.inputs import Case, materialise
from kernelsmith.evaluate.truth.sizes import (
    EDGES,
    FEW_EDGES,
    FIRST_EDGES,
    LONG,
    MIXED,
    drawn_sizes,
    edges_of,
    fitting,
    nearest,
)
from kernelsmith.operators.declare import Layout
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.outcome import Level
from kernelsmith.plan import ITEM_SIZES
from kernelsmith.space import Sweep, Where

FIRST = 40
"""Cases of the quick level, workloads included; those of every other level begin with them."""
LIMITS = {Level.QUICK: FIRST, Level.FULL: 400, Level.EXHAUSTIVE: 400}
"""Cases per level, workloads included, without the sizes that are walked."""
WALKED, STRIDE = 4096, 64
"""At the exhaustive level every dim takes every size up to this one; at the full level every multiple of the other."""
ELEMENTS = {Level.QUICK: 1 << 17, Level.FULL: 1 << 21, Level.EXHAUSTIVE: 1 << 21}
"""Elements that the inputs, and the outputs, of a case may have that is not a workload."""
LOOPED_CALLS = 500
"""A reference with more aten calls loops over a dim in Python: long dims would take it minutes."""
APART = {Layout.ROWS_SLICED, Layout.FAR}
"""Layouts that say that the rows of an argument may lie apart."""
PROFILES = 8
"""Shapes among which every pair of other alternatives is spread."""
ORDER = (
    Values.NEGATIVE,
    Values.SHIFTED,
    Values.ONE_NAN,
    Values.DUPLICATES,
    Values.TIES,
    Values.MASKED,
    Values.INFS,
    Values.LARGE,
    Values.ZEROS,
    Values.EXTREMES,
    Values.TINY,
    Values.RAMP,
)
ON_LONG = (Values.CANCELLING, Values.CONSTANT, Values.SPIKE)
"""Kinds that show on long dims."""
RARE = (Values.SPIKE_FIRST, Values.SPIKE_INSIDE, Values.DENORMAL)
"""Kinds that few kernels fail on."""


def cases(op: LoadedOperator, *, level: Level, seed: int, blocks: Sequence[int]) -> list[Case]:
    """Cases to check, most revealing first.

    Args:
        level: quick gives at most FIRST small cases, the others those and more, also larger ones.
        seed: rotates which alternatives meet; not the seed of the contents.
        blocks: block sizes seen in the candidate; each is tried with its neighbours.
    """
    if op.problem is not None:
        return [*workload_cases(op), *(Case(values=kind) for kind in _sound_variants(op))]
    found: dict[str, Case] = {}
    for part in (Level.QUICK,) if level is Level.QUICK else (Level.QUICK, level):
        search = _Search(Alternatives(op), part, seed, _sizes(blocks))
        for case in search.all():
            found.setdefault(case.model_dump_json(), case)
            if len(found) >= max(LIMITS[part], len(op.workloads)):
                break
    return list(found.values())


def around(op: LoadedOperator, *, level: Level, seed: int, blocks: Sequence[int]) -> list[Case]:
    """Cases at the sizes around block sizes, one dim at a time."""
    if op.problem is not None:
        return []
    return list(_Search(Alternatives(op), level, seed, ()).edges(edges_of(_sizes(blocks))))


def walks(op: LoadedOperator, level: Level) -> tuple[Sweep, ...]:
    """What a level walks of each dim: the exhaustive one every size up to WALKED, the full one the multiples of STRIDE
    up to twice that, among which are the sizes that models have and no table of edges (768, 2560, 5120)."""
    if level is Level.QUICK:
        return ()
    step = 1 if level is Level.EXHAUSTIVE else STRIDE
    ends = ((dim.name, -(-dim.low // step) * step, min(dim.high, WALKED * (1 if step == 1 else 2))) for dim in op.dims)
    return tuple(
        Sweep(name=n, low=max(low, step if step > 1 else 0), high=h, step=step) for n, low, h in ends if low <= h
    )


def far(op: LoadedOperator) -> list[Case]:
    """For each argument whose rows may lie apart, cases whose rows lie so far apart that offsets pass 2**31: three or
    four rows, since more say no more. None where the declared dims allow no so few."""
    if op.problem is not None:
        return []
    alternatives = Alternatives(op)
    cases = (_far(alternatives, name) for name, spec in alternatives.tensors.items() if APART & set(spec.layouts))
    return [case for case in cases if case is not None]


def reaches_far(op: LoadedOperator, name: str) -> bool:
    """Whether the declaration allows an argument whose offsets pass 2**31: by its sizes, or by naming far rows."""
    spec = Alternatives(op).tensors[name]
    largest = nearest(op, {d.name: d.high for d in op.dims})
    return Layout.FAR in spec.layouts or (largest is not None and math.prod(op.shape(name, largest)) > 1 << 31)


def undeclared(op: LoadedOperator) -> list[tuple[str, Layout, Case]]:
    """For each argument of which no layout but contiguous is declared, cases in which it is something else."""
    if op.problem is not None:
        return []
    search = _Search(Alternatives(op), Level.QUICK, 0, ())
    shape, found = next(search.mixed(), None), []
    for name, spec in search.alternatives.tensors.items():
        for layout in (Layout.ROWS_SLICED, Layout.OFFSET) if spec.layouts == (Layout.CONTIGUOUS,) else ():
            case = search.alternatives.case(shape, layout={name: layout})
            if case is not None and len(spec.shape) > (layout is Layout.ROWS_SLICED):
                found.append((name, layout, case))
    return found


def revisited(op: LoadedOperator, places: Sequence[Where]) -> list[Case]:
    """The cases at which earlier candidates of a run failed."""
    if op.problem is not None:
        return []
    again = map(Alternatives(op).revisited, places)
    return list({case.model_dump_json(): case for case in again if case is not None}.values())


@functools.lru_cache(maxsize=16)
def _sound_variants(op: LoadedOperator) -> tuple[Values, ...]:
    """Variants of a KernelBench problem's contents on which its model is still defined and finite."""
    if op.problem is None or not op.problem.has_floats:
        return ()
    kinds = (Values.NEGATIVE, Values.LARGE, Values.SHIFTED, Values.TINY)
    if not _finite(op, Values.NORMAL):
        return kinds
    return tuple(kind for kind in kinds if _finite(op, kind))


def _finite(op: LoadedOperator, kind: Values) -> bool:
    """Whether the reference gives finite numbers on contents of this kind."""
    try:
        answer = op.reference(*materialise(op, Case(values=kind), 0).arguments())
    except USER_ERRORS:  # whether it is legal at all is for the truth to say
        return False
    answers = (answer,) if isinstance(answer, torch.Tensor) else answer
    return all(bool(a.isfinite().all()) for a in answers)


def workload_cases(op: LoadedOperator) -> list[Case]:
    """One case per tuned workload, in the operator's order."""
    return Alternatives(op).workloads()


def sequence(op: LoadedOperator, level: Level = Level.QUICK) -> list[Case]:
    """A large call, a small one, the large one again: what state between calls cannot survive. From the full level on
    also calls that a cache may take for one before: equally many elements, the same shape in other dtypes or strides.

    A KernelBench problem has one shape, so one call.
    """
    if op.problem is not None:
        return workload_cases(op)
    search = _Search(Alternatives(op), Level.QUICK, 0, ())
    case = search.alternatives.case
    large, small = (search.shape({d.name: size for d in op.dims}) for size in (67, 2))
    calls = [case(large), case(small), case(large)]
    if level is not Level.QUICK:
        turned = dict(zip((d.name for d in op.dims), itertools.cycle((134, 33)), strict=False))
        calls += [
            case(search.shape(turned)),
            case(search.shape(dict(zip(turned, reversed(turned.values()), strict=True)))),
        ]
        calls += [case(large, pick=pick) for pick in range(1, min(3, len(op.dtype_sets)))]
        calls += [case(large, layout=layout) for layout in search.alternatives.layouts[1:3]]
        calls += [case(large)]
    return [c for c in calls if c is not None]


def _far(alternatives: Alternatives, name: str) -> Case | None:
    spec, op = alternatives.tensors[name], alternatives.op
    rows = [d.name for d in op.dims if any(d.name in size.names for size in spec.shape[:-1])]
    for counts in sorted(itertools.product((1, 2, 3), repeat=min(len(rows), 4)), key=lambda c: (-max(c), sum(c))):
        wanted = {d.name: 37 for d in op.dims} | dict(zip(rows, counts, strict=False))
        dims = fitting(op, wanted, ELEMENTS[Level.QUICK])
        if dims is not None and 3 <= math.prod(op.shape(name, dims)[:-1]) <= 4 and op.shape(name, dims)[-1]:
            narrowest = min(range(len(op.dtype_sets)), key=lambda i: ITEM_SIZES[op.dtype_sets[i][name]])
            return alternatives.case(dims, pick=narrowest, layout={name: Layout.FAR})
    return None


def _sizes(blocks: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(b for b in blocks if b > 1))


@dataclass(frozen=True, eq=False)
class _Search:
    """How the alternatives of one operator are combined."""

    alternatives: Alternatives
    level: Level
    seed: int
    blocks: tuple[int, ...]

    @property
    def op(self) -> LoadedOperator:
        return self.alternatives.op

    def all(self) -> Iterator[Case]:
        """Every case, best first; may repeat itself and be longer than wanted."""
        yield from self.alternatives.workloads()
        mixed, long = list(self.mixed()), list(self.long())
        table = edges_of(self.blocks)
        quick = self.level is Level.QUICK
        known = FEW_EDGES if quick else (*EDGES[:FIRST_EDGES], *drawn_sizes(self.seed), *EDGES[FIRST_EDGES:])
        edges = self.edges(dict.fromkeys([*table[:4], *known, *table[4:]]))
        singles = [self.kinds(mixed), self.on_long(long), self.singles(mixed), edges]
        if self.level is Level.QUICK:
            yield from _round_robin(singles)
        else:
            yield from _round_robin([*singles, self.pairs(mixed, long)])

    def kinds(self, shapes: Sequence[dict[str, int]]) -> Iterator[Case]:
        """Each kind of contents in each argument that can have it."""
        layouts, i = self.alternatives.layouts, 0
        for kind in ORDER:
            focuses = self.alternatives.focuses(kind)
            for focus in focuses if kind in ORDER[:4] or self.level is not Level.QUICK else focuses[:1]:
                shape = shapes[(i + self.seed) % len(shapes)]
                made = self.alternatives.case(shape, kind, focus, pick=i, layout=layouts[i % len(layouts)])
                i += 1
                if made is not None:
                    yield made

    def on_long(self, shapes: Sequence[dict[str, int]]) -> Iterator[Case]:
        """Accumulator and sampling faults: long dims, the narrowest dtypes first."""
        sets = sorted(range(len(self.op.dtype_sets)), key=lambda i: _narrow(self.op.dtype_sets[i]))
        for pick, kind in itertools.product(sets[:1] if self.level is Level.QUICK else sets, ON_LONG):
            for shape in shapes:
                focus = next(iter(self.alternatives.focuses(kind)), None)
                made = self.alternatives.case(shape, kind if focus else Values.NORMAL, focus, pick=pick)
                if made is not None:
                    yield made

    def singles(self, shapes: Sequence[dict[str, int]]) -> Iterator[Case]:
        """Every layout, dtype set, missing optional argument and scalar choice at least once on normal values."""
        if not shapes:
            return
        shape, case, optional = shapes[0], self.alternatives.case, self.alternatives.optional
        made = [case(shape, layout=layout, pick=i) for i, layout in enumerate(self.alternatives.layouts[1:])]
        made += [case(shapes[i % len(shapes)], pick=i) for i in range(len(self.op.dtype_sets))]
        made += [case(shape, absent=(n,)) for n in optional]
        made += [case(shape, absent=tuple(optional))] if len(optional) > 1 else []
        turns = self.alternatives.turns
        rows = [(i, [*shapes[i % len(shapes) :], *shapes]) for i in range(1, turns(*shapes))]
        made += [case(next(shape for shape in row if turns(shape) > i), turn=i) for i, row in rows]
        yield from (m for m in made if m is not None)

    def edges(self, sizes: Iterable[int]) -> Iterator[Case]:
        """One dim at a time at the sizes where block loops and grids change; empty dims where they are allowed."""
        kinds, i = (Values.NORMAL, Values.NEGATIVE, Values.SHIFTED), 0
        for size in sizes:
            for dim in self.op.dims:
                shape = self.one_at(dim.name, size)
                if shape is None:
                    continue
                kind = kinds[i % 3]
                focus = next(iter(self.alternatives.focuses(kind)), None)
                made = self.alternatives.case(shape, kind if focus else Values.NORMAL, focus, pick=i + i // len(kinds))
                i += 1
                if made is not None:
                    yield made
        hollow = [d.name for d in self.op.dims if d.low == 0]
        threes = {d.name: 3 for d in self.op.dims}
        empties = [threes | {name: 0} for name in hollow]
        empties += [dict.fromkeys(threes, 0)] if len(hollow) == len(threes) > 1 else []
        made_empty = (self.alternatives.case(self.shape(wanted)) for wanted in empties)
        yield from (m for m in made_empty if m is not None)

    def pairs(self, mixed: Sequence[dict[str, int]], long: Sequence[dict[str, int]]) -> Iterator[Case]:
        """Every two of: a shape, a dtype set, a layout, contents of an argument, scalars, and what is absent."""
        alternatives, sets = self.alternatives, self.op.dtype_sets
        shapes = self.profiles(mixed, long)
        contents: list[tuple[Values, str | None]] = [(Values.NORMAL, None)]
        contents += [
            (kind, focus)
            for kind in (*ORDER, *ON_LONG, *RARE)
            for focus in alternatives.focuses(kind)[: None if kind in ORDER[:2] else 1]
        ]
        absents = [(), *((n,) for n in alternatives.optional)]
        turns = alternatives.turns(*shapes)

        def allowed(one: Alternative, other: Alternative) -> bool:
            at = dict((one, other))
            kind, focus = contents[at[3]] if 3 in at else (Values.NORMAL, None)
            if focus is None:
                return True
            fits = 1 not in at or alternatives.meets(focus, sets[at[1]], kind)
            return fits and (5 not in at or focus not in absents[at[5]])

        factors = [len(shapes), len(sets), len(alternatives.layouts), len(contents), turns, len(absents)]
        for shape, dtypes, layout, content, turn, absent in covering(factors, allowed, random.Random(self.seed)):
            kind, focus = contents[content]
            made = alternatives.case(
                shapes[shape], kind, focus, layout=alternatives.layouts[layout], absent=absents[absent], turn=turn
            )
            if made is not None:
                yield made.model_copy(update={"dtypes": sets[dtypes]})

    def profiles(self, mixed: Sequence[dict[str, int]], long: Sequence[dict[str, int]]) -> list[dict[str, int]]:
        """A few shapes of unlike kinds: odd ones, a long dim, one past a block, ones, several blocks."""
        block = self.blocks[0] if self.blocks else 256
        sizes = [dict.fromkeys((d.name for d in self.op.dims), size) for size in (block + 1, 1, 2 * block - 1)]
        past = [shape for shape in map(self.shape, sizes) if shape is not None]
        rows = itertools.zip_longest(mixed[:4], long, past)
        unique = {tuple(shape.items()): shape for row in rows for shape in row if shape is not None}
        return list(unique.values())[:PROFILES]

    def mixed(self) -> Iterator[dict[str, int]]:
        for i in range(len(MIXED)):
            wanted = {d.name: MIXED[(i + 5 * k) % len(MIXED)] for k, d in enumerate(reversed(self.op.dims))}
            shape = self.shape(wanted)
            if shape is not None:
                yield shape

    def long(self) -> Iterator[dict[str, int]]:
        """Each dim long in turn, last dims first."""
        for dim in reversed(self.op.dims):
            for size in LONG if self.op.calls < LOOPED_CALLS else LONG[-1:]:
                if dim.low <= size <= dim.high:
                    shape = self.shape({d.name: 3 for d in self.op.dims} | {dim.name: size})
                    if shape is not None and shape[dim.name] > 400:
                        yield shape
                        break

    def one_at(self, name: str, size: int) -> dict[str, int] | None:
        """Dims of which one has exactly this size, while the others are small; None where that is not legal."""
        small = {d.name: 5 + 2 * k for k, d in enumerate(self.op.dims)}
        dim = next(d for d in self.op.dims if d.name == name)
        shape = self.shape(small | {name: size}) if dim.low <= size <= dim.high else None
        return shape if shape is not None and shape[name] == size else None

    def shape(self, wanted: Mapping[str, int]) -> dict[str, int] | None:
        """Legal dims near `wanted`, with few enough elements."""
        return fitting(self.op, wanted, ELEMENTS[self.level])


def _narrow(dtypes: Mapping[str, str]) -> int:
    """Order of dtype sets by the narrowness of their floats: float16 (least range) first."""
    order = {"float16": 0, "bfloat16": 1, "float32": 2}
    return min((order.get(d, 3) for d in dtypes.values()), default=3)


def _round_robin(streams: Sequence[Iterator[Case]]) -> Iterator[Case]:
    for row in itertools.zip_longest(*streams):
        yield from (one for one in row if one is not None)
