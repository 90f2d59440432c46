"""Which cases to try, most revealing first.

Tuned workloads, then sizes away from them (1, 2, primes, powers of two and block sizes and their neighbours, one long
dim at a time), crossed with dtypes, layouts and kinds of contents so that every alternative occurs and few cases repeat
a combination. Called by the judge; the list depends only on its arguments.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelsmith.base import Scalar
from kernelsmith.errors import USER_ERRORS
from kernelsmith.evaluate.truth.contents import TensorRequest, Values
from kernelsmith.evaluate.truth.inputs import Case, materialise
from kernelsmith.operators.declare import Layout, ScalarSpec, TensorSpec
from kernelsmith.operators.expressions import Dim
from kernelsmith.operators.loaded import LoadedOperator, number
from kernelsmith.outcome import Level

LIMITS = {Level.QUICK: 40, Level.FULL: 200}
"""Cases per level, workloads included."""
ELEMENTS = {Level.QUICK: 1 << 17, Level.FULL: 1 << 21}
"""Input elements a case may have that is not a workload."""
MIXED = (37, 130, 5, 67, 1, 100, 17, 3, 257, 2, 33, 64, 7, 129, 31, 200)
"""Sizes that are combined across dims; odd ones first."""
EDGES: dict[Level, tuple[int, ...]] = {
    Level.QUICK: (257, 1, 1025, 2),
    Level.FULL: (257, 1, 1025, 2, 3, 7, 1000, *(2**k + d for k in range(4, 17) for d in (1, -1, 0))),
}
"""Sizes that one dim takes while the others stay small."""
LONG = (8209, 4099, 2053, 1031, 521)
"""A long dim, as long as the operator allows: accumulators show their width here."""
LOOPED_CALLS = 500
"""A reference with more aten calls loops over a dim in Python: long dims would take it minutes."""
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
TOGETHER = frozenset({Values.TIES, Values.ZEROS})
"""Kinds that show when all arguments have them: equal elements of two operands, zeros that meet."""
ON_LONG = (Values.CANCELLING, Values.CONSTANT, Values.SPIKE)
"""Kinds that show on long dims."""


def cases(op: LoadedOperator, *, level: Level, seed: int, blocks: Sequence[int]) -> list[Case]:
    """Cases to check, most revealing first.

    Args:
        level: quick gives at most 40 small cases, full at most 200.
        seed: rotates which alternatives meet; not the seed of the contents.
        blocks: block sizes seen in the candidate; each is tried with its neighbours.
    """
    if op.problem is not None:
        return [*workload_cases(op), *(Case(values=kind) for kind in _sound_variants(op))]
    search = _Search(op, level, seed, tuple(dict.fromkeys(b for b in blocks if b > 1)))
    found: dict[str, Case] = {}
    for case in search.all():
        found.setdefault(case.model_dump_json(), case)
        if len(found) >= max(LIMITS[level], len(op.workloads)):
            break
    return list(found.values())


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
    return list(_Search(op, Level.QUICK, 0, ()).workloads())


def sequence(op: LoadedOperator) -> list[Case]:
    """A large call, a small one, the large one again: what state between calls cannot survive.

    A KernelBench problem has one shape, so one call.
    """
    if op.problem is not None:
        return workload_cases(op)
    search = _Search(op, Level.QUICK, 0, ())
    large = search.case(search.shape({d.name: 67 for d in op.dims}))
    small = search.case(search.shape({d.name: 2 for d in op.dims}))
    return [c for c in (large, small, large) if c is not None]


def nearest(op: LoadedOperator, wanted: Mapping[str, int]) -> dict[str, int] | None:
    """Legal dims near `wanted`, or None where a bounded search finds none.

    Repairs one broken rule after the other by the smallest move of one dim (then of two) that leaves fewer broken.
    """
    dims = {d.name: min(max(wanted[d.name], d.low), d.high) for d in op.dims}
    for _ in range(2 * len(op.dims) + len(op.relations) + 1):
        broken = list(op.broken(dims))
        if not broken:
            return dims
        involved = [d for d in op.dims if any(d.name in names for _, names in broken)]
        better = _repaired(op, dims, involved, 1, len(broken)) or _repaired(op, dims, involved, 2, len(broken))
        if better is None:
            return None
        dims = better
    return None


def _repaired(
    op: LoadedOperator, dims: dict[str, int], involved: Sequence[Dim], moved: int, broken: int
) -> dict[str, int] | None:
    """`dims` with `moved` of the involved dims changed so that fewer than `broken` rules are."""
    found: list[dict[str, int]] = []
    for chosen in itertools.combinations(involved, moved):
        options = [_nearby(dims[d.name], d.low, d.high, tuple(dims.values())) for d in chosen]
        for sizes in itertools.product(*(o if moved == 1 else o[:24] for o in options)):
            attempt = dims | {d.name: s for d, s in zip(chosen, sizes, strict=True)}
            if len(list(itertools.islice(op.broken(attempt), broken))) < broken:
                found.append(attempt)
                break
    return min(found, key=lambda f: sum(abs(math.log((f[n] + 1) / (dims[n] + 1))) for n in f), default=None)


def _nearby(size: int, low: int, high: int, others: Sequence[int]) -> list[int]:
    """Sizes to try instead of `size`, nearest first: neighbours, multiples and divisors of what the others have."""
    found = {size + step for step in range(-64, 65)}
    found |= {1 << k for k in range(17)}
    for other in others:
        found |= {other, 2 * other, 4 * other, 8 * other, other // 2, other // 4, other // 8}
    for unit in (8, 16, 32, 64, 128, 256):
        found |= {size // unit * unit, -(-size // unit) * unit}
    legal = [s for s in found if low <= s <= high]
    return sorted(legal, key=lambda s: (abs(s - size), s))


@dataclass(frozen=True, eq=False)
class _Search:
    """The alternatives of one operator, and how they are combined."""

    op: LoadedOperator
    level: Level
    seed: int
    blocks: tuple[int, ...]

    def all(self) -> Iterator[Case]:
        """Every case, best first; may repeat itself and be longer than wanted."""
        yield from self.workloads()
        mixed, long = list(self.mixed()), list(self.long())
        rounds = [self.kinds(mixed), self.on_long(long), self.alternatives(mixed), self.edges()]
        if self.level is Level.QUICK:
            yield from _round_robin(rounds)
        else:
            yield from itertools.chain.from_iterable(rounds)
            yield from self.kinds(mixed[3:] + mixed[:3], every=True)

    def workloads(self) -> Iterator[Case]:
        for w in self.op.workloads:
            absent = tuple(n for n, s in self.op.arguments.items() if isinstance(s, TensorSpec) and n in w.scalars)
            scalars = {n: v for n, v in w.scalars.items() if n not in absent}
            yield Case(dims=w.dims, dtypes=w.dtypes, scalars=scalars, absent=absent, workload=w)

    def kinds(self, shapes: Sequence[dict[str, int]], *, every: bool = False) -> Iterator[Case]:
        """Each kind of contents in each argument that can have it."""
        layouts, i = self.layouts(), 0
        for kind in ORDER:
            focuses = self.focuses(kind)
            for focus in focuses if every or kind in ORDER[:4] else focuses[:1]:
                for _ in range(3 if every else 1):
                    shape = shapes[(i + self.seed) % len(shapes)]
                    made = self.case(shape, kind, focus, pick=i, layout=layouts[i % len(layouts)])
                    i += 1
                    if made is not None:
                        yield made

    def on_long(self, shapes: Sequence[dict[str, int]]) -> Iterator[Case]:
        """Accumulator and sampling faults: long dims, the narrowest dtypes first."""
        sets = sorted(range(len(self.op.dtype_sets)), key=lambda i: _narrow(self.op.dtype_sets[i]))
        for pick, kind in itertools.product(sets if self.level is Level.FULL else sets[:1], ON_LONG):
            for shape in shapes:
                focus = next(iter(self.focuses(kind)), None)
                made = self.case(shape, kind if focus else Values.NORMAL, focus, pick=pick)
                if made is not None:
                    yield made

    def alternatives(self, shapes: Sequence[dict[str, int]]) -> Iterator[Case]:
        """Every layout, dtype set, missing optional argument and scalar choice at least once on normal values."""
        shape = shapes[0]
        optional = [n for n, s in self.op.arguments.items() if isinstance(s, TensorSpec) and s.optional]
        made = [self.case(shape, layout=layout, pick=i) for i, layout in enumerate(self.layouts()[1:])]
        made += [self.case(shapes[i % len(shapes)], pick=i) for i in range(len(self.op.dtype_sets))]
        made += [self.case(shape, absent=(n,)) for n in optional]
        made += [self.case(shape, absent=tuple(optional))] if len(optional) > 1 else []
        turns = max((len(self.scalar_values(n, shape)) for n in self.op.arguments), default=0)
        made += [self.case(shapes[i % len(shapes)], turn=i) for i in range(1, turns)]
        yield from (m for m in made if m is not None)

    def edges(self) -> Iterator[Case]:
        """One dim at a time at the sizes where block loops and grids change."""
        sizes = [b + d for b in self.blocks for d in (1, -1, 0)] + [2 * b + 1 for b in self.blocks]
        table = sizes[:4] + list(EDGES[self.level]) + sizes[4:]
        i = 0
        kinds = (Values.NORMAL, Values.NEGATIVE, Values.SHIFTED)
        for size in dict.fromkeys(table):
            for dim in self.op.dims:
                small = {d.name: 5 + 2 * k for k, d in enumerate(self.op.dims)}
                shape = self.shape(small | {dim.name: size})
                if shape is None or not dim.low <= size <= dim.high or shape[dim.name] != size:
                    continue
                kind = kinds[i % 3]
                focus = next(iter(self.focuses(kind)), None)
                made = self.case(shape, kind if focus else Values.NORMAL, focus, pick=i + i // len(kinds))
                i += 1
                if made is not None:
                    yield made
        if all(d.low == 0 for d in self.op.dims) and self.op.dims:
            yield from (m for m in [self.case(self.shape({d.name: 0 for d in self.op.dims}))] if m is not None)
        for dim in self.op.dims:
            if dim.low == 0:
                empty = self.case(self.shape({d.name: 3 for d in self.op.dims} | {dim.name: 0}))
                yield from () if empty is None else (empty,)

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

    def shape(self, wanted: Mapping[str, int]) -> dict[str, int] | None:
        """Legal dims near `wanted`, with few enough elements."""
        goal = dict(wanted)
        for _ in range(24):
            dims = nearest(self.op, goal)
            if dims is None or self.elements(dims) <= ELEMENTS[self.level]:
                return dims
            largest = max(goal, key=lambda n: goal[n])
            if goal[largest] <= 2:
                return None
            goal[largest] = max(2, goal[largest] // 2 + 1)
        return None

    def elements(self, dims: Mapping[str, int]) -> int:
        total = 0
        for name, spec in self.op.arguments.items():
            if isinstance(spec, TensorSpec):
                n = 1 if spec.count is None else spec.count.value(dims)
                for size in self.op.shape(name, dims):
                    n *= size
                total += n
        return total

    def focuses(self, kind: Values) -> list[str]:
        """Arguments that can have this kind under some dtype set."""
        found = []
        for name, spec in self.op.arguments.items():
            if isinstance(spec, TensorSpec):
                low = spec.low if isinstance(spec.low, int | float) else None if spec.low is None else 0
                requests = (TensorRequest((), s[name], low, None, spec.words) for s in self.op.dtype_sets)
                if any(r.allows(kind) for r in requests):
                    found.append(name)
        return found

    def layouts(self) -> list[dict[str, str]]:
        """All contiguous; then each other layout on one argument alone; then on all that allow it."""
        specs = {n: s for n, s in self.op.arguments.items() if isinstance(s, TensorSpec)}
        plain = {n: s.layouts[0].value for n, s in specs.items()}
        singles = [plain | {n: layout.value} for n, s in specs.items() for layout in s.layouts[1:]]
        together = [plain | {n: layout.value for n, s in specs.items() if layout in s.layouts} for layout in Layout]
        unique = {tuple(one.items()): one for one in [plain, *singles, *together]}
        return list(unique.values())

    def scalar_values(self, name: str, dims: Mapping[str, int] | None) -> list[Scalar | None]:
        """Values a scalar may have at these dims: the tuned one first, then the choices or the ends of its range."""
        spec = self.op.arguments[name]
        if not isinstance(spec, ScalarSpec) or dims is None:
            return []
        tuned = [w.scalars[name] for w in self.op.workloads if name in w.scalars]
        values: list[Scalar | None] = [*tuned, *spec.choices]
        low, high = number(spec.low, dims), number(spec.high, dims)
        if low is not None and high is not None:
            values = [v if v is None or isinstance(v, str) else min(max(v, low), high) for v in values]
            values += [low, high, spec.kind((low + high) / 2)]
        values += [None] if spec.optional else []
        return list(dict.fromkeys(values))

    def case(
        self,
        dims: Mapping[str, int] | None,
        kind: Values = Values.NORMAL,
        focus: str | None = None,
        *,
        pick: int = 0,
        layout: dict[str, str] | None = None,
        absent: tuple[str, ...] = (),
        turn: int = 0,
    ) -> Case | None:
        """One case; `pick` rotates dtype sets (skipping those that cannot show the kind), `turn` the scalars."""
        if dims is None:
            return None
        sets = self.op.dtype_sets
        if focus is not None:
            spec = self.op.arguments[focus]
            assert isinstance(spec, TensorSpec)
            low = number(spec.low, dims)
            fitting = [s for s in sets if TensorRequest((), s[focus], low, None, spec.words).allows(kind)]
            sets = tuple(fitting) or sets
        scalars: dict[str, Scalar | None] = {}
        for name in self.op.arguments:
            if values := self.scalar_values(name, dims):
                scalars[name] = values[turn % len(values)]
        layouts = layout or self.layouts()[0]
        return Case(
            dims=dict(dims),
            dtypes=sets[pick % len(sets)],
            layouts={n: v for n, v in layouts.items() if v != Layout.CONTIGUOUS},
            scalars=scalars,
            values=kind,
            focus=None if kind is Values.NORMAL or kind in TOGETHER or len(self.op.arguments) == 1 else focus,
            absent=tuple(a for a in absent if a != focus),
        )


def _narrow(dtypes: Mapping[str, str]) -> int:
    """Order of dtype sets by the narrowness of their floats: float16 (least range) first."""
    order = {"float16": 0, "bfloat16": 1, "float32": 2}
    return min((order.get(d, 3) for d in dtypes.values()), default=3)


def _round_robin(streams: Sequence[Iterator[Case]]) -> Iterator[Case]:
    for row in itertools.zip_longest(*streams):
        yield from (one for one in row if one is not None)
