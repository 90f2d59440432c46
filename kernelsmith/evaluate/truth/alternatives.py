"""The alternatives of one operator: dtypes, layouts, kinds of contents, scalars, optional arguments; and the case that
a choice among them makes. Called by `explore`."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from kernelsmith.base import Scalar
from kernelsmith.evaluate.truth.contents import TensorRequest, Values
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.operators.declare import Layout, ScalarSpec, TensorSpec
from kernelsmith.operators.loaded import LoadedOperator, number
from kernelsmith.space import Where

TOGETHER = frozenset({Values.TIES, Values.ZEROS})
"""Kinds that show when all arguments have them: equal elements of two operands, zeros that meet."""


@dataclass(frozen=True, eq=False)
class Alternatives:
    """What may differ from case to case, beside the sizes."""

    op: LoadedOperator

    @functools.cached_property
    def tensors(self) -> dict[str, TensorSpec]:
        return {n: s for n, s in self.op.arguments.items() if isinstance(s, TensorSpec)}

    @functools.cached_property
    def plain(self) -> dict[str, str]:
        """The layout of each tensor that was declared first."""
        return {n: s.layouts[0].value for n, s in self.tensors.items()}

    @property
    def optional(self) -> list[str]:
        return [n for n, s in self.tensors.items() if s.optional]

    def workloads(self) -> list[Case]:
        """One case per tuned workload, in the operator's order."""
        made = []
        for w in self.op.workloads:
            absent = tuple(n for n in self.tensors if n in w.scalars)
            scalars = {n: v for n, v in w.scalars.items() if n not in absent}
            made.append(Case(dims=w.dims, dtypes=w.dtypes, scalars=scalars, absent=absent, workload=w))
        return made

    def allows(self, name: str, dtypes: Mapping[str, str], kind: Values, low: float | None) -> bool:
        """Whether a tensor whose values begin at `low` can have this kind of contents."""
        spec = self.tensors[name]
        return TensorRequest((), dtypes[name], low, None, spec.words).allows(kind)

    def focuses(self, kind: Values) -> list[str]:
        """Arguments that can have this kind under some dtype set."""
        return [n for n in self.tensors if any(self.meets(n, s, kind) for s in self.op.dtype_sets)]

    def meets(self, name: str, dtypes: Mapping[str, str], kind: Values) -> bool:
        """Whether an argument can have this kind under a dtype set; a bound that depends on dims is taken for 0."""
        low = self.tensors[name].low
        return self.allows(name, dtypes, kind, low if isinstance(low, int | float) else None if low is None else 0)

    @functools.cached_property
    def layouts(self) -> list[dict[str, str]]:
        """All plain; then each other layout on one argument alone; then on all that allow it; then each argument in
        another one. Rows far apart are left to `far`."""
        near = {n: [one.value for one in s.near] for n, s in self.tensors.items()}
        singles = [self.plain | {n: one} for n, own in near.items() for one in own[1:]]
        together = [self.plain | {n: one.value for n, own in near.items() if one in own} for one in Layout]
        turns = range(1, max((len(own) for own in near.values()), default=1))
        apart = [
            self.plain | {n: own[(turn + k) % len(own)] for k, (n, own) in enumerate(near.items()) if own}
            for turn in turns
        ]
        return list({tuple(one.items()): one for one in [self.plain, *singles, *together, *apart]}.values())

    def scalar_values(self, name: str, dims: Mapping[str, int]) -> list[Scalar | None]:
        """Values a scalar may have at these dims: the tuned one first, then the choices or the ends of its range."""
        spec = self.op.arguments[name]
        if not isinstance(spec, ScalarSpec):
            return []
        tuned = [w.scalars[name] for w in self.op.workloads if name in w.scalars]
        values: list[Scalar | None] = [*tuned, *spec.choices]
        low, high = number(spec.low, dims), number(spec.high, dims)
        if low is not None and high is not None:
            values = [v if v is None or isinstance(v, str) else min(max(v, low), high) for v in values]
            values += [low, high, spec.kind((low + high) / 2)]
        values += [None] if spec.optional else []
        return list(dict.fromkeys(values))

    def turns(self, *shapes: Mapping[str, int]) -> int:
        """How many values the scalar with most of them has at one of these shapes; 1 where there are none. A range that
        depends on dims, such as a position in a longer table, may be a single number at some shapes."""
        return max((len(self.scalar_values(n, dims)) for dims in shapes for n in self.op.arguments), default=0) or 1

    def case(
        self,
        dims: Mapping[str, int] | None,
        kind: Values = Values.NORMAL,
        focus: str | None = None,
        *,
        pick: int = 0,
        layout: Mapping[str, str] | None = None,
        absent: tuple[str, ...] = (),
        turn: int = 0,
    ) -> Case | None:
        """One case; `pick` rotates dtype sets (skipping those that cannot show the kind), `turn` the scalars."""
        if dims is None:
            return None
        sets = self.op.dtype_sets
        if focus is not None:
            low = number(self.tensors[focus].low, dims)
            sets = tuple(s for s in sets if self.allows(focus, s, kind, low)) or sets
        scalars: dict[str, Scalar | None] = {}
        for name in self.op.arguments:
            if values := self.scalar_values(name, dims):
                scalars[name] = values[turn % len(values)]
        return Case(
            dims=dict(dims),
            dtypes=sets[pick % len(sets)],
            layouts={n: v for n, v in (layout or self.plain).items() if v != Layout.CONTIGUOUS},
            scalars=scalars,
            values=kind,
            focus=None if kind is Values.NORMAL or kind in TOGETHER or len(self.op.arguments) == 1 else focus,
            absent=tuple(a for a in absent if a != focus),
        )

    def revisited(self, where: Where) -> Case | None:
        """The case at which another candidate failed; None for one of another operator, for a tuned workload, which is
        tried anyway, and for far rows, which are tried apart."""
        kind, _, focus = where.values.partition(" values")
        focus = focus.removeprefix(" in ")
        tuned = any(where.dims == w.dims and where.dtypes == w.dtypes for w in self.op.workloads)
        known = (
            where.dims.keys() == {d.name for d in self.op.dims}
            and where.dtypes in self.op.dtype_sets
            and where.layouts.items() <= {(n, one.value) for n, s in self.tensors.items() for one in s.layouts}
            and where.scalars.keys() <= self.op.arguments.keys() - self.tensors.keys()
            and kind in list(Values)
            and (not focus or focus in self.tensors)
        )
        if tuned or not known or Layout.FAR in where.layouts.values() or not self.op.legal(where.dims):
            return None
        return Case(
            dims=where.dims,
            dtypes=where.dtypes,
            layouts=where.layouts,
            scalars=where.scalars,
            values=Values(kind),
            focus=focus or None,
        )
