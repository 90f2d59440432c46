"""Walks every size of one dim: what no sample of sizes can promise.

The other dims stay small, as far as relations let them. The first pass draws dtypes and layouts by lot, size by size,
so that it mixes them all; further passes run every size under each dtype that it has not met yet, plainly laid out,
while there is time. Invariant: a walk goes on after a failure; a range is called swept for a dtype only if each of its
sizes was run with it and was right. `extent` calls this, `locate` makes a sentence of what failed.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from kernelsmith.errors import UsageError
from kernelsmith.evaluate.region.edges import Along
from kernelsmith.evaluate.region.line import Line, plain_layouts, resized
from kernelsmith.evaluate.region.pattern import ranges, rule_of
from kernelsmith.evaluate.region.probe import ENDED
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evaluate.truth.sizes import elements, nearest
from kernelsmith.evidence import Swept
from kernelsmith.operators.declare import Layout, TensorSpec
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.space import Region, RegionStatus, Sweep

Run = Callable[[Case], CandidateFailure | None]
"""Runs one case: how it failed, or None. Raises InfrastructureError."""

SMALL = 3
"""Size of the other dims: more than one row, and few enough to be quick."""
MOST_ELEMENTS = 1 << 24
"""Elements of a case's inputs, and of its outputs; larger sizes are left out of a sweep."""
TURN = 64
"""Sizes that are run before another job may have the device."""
MIXED_SECONDS = 600.0
"""For the first pass of a sweep."""
WHOLE_SECONDS = 120.0
"""Since the sweep began, after which no further pass is begun, and one under way ends."""
MOST_ENDED = 100
"""Processes that may end (crash, hang) before a sweep is given up: each costs a new one."""
MOST_BOXES = 64
"""Boxes that one sweep may prove: where other dims move with the one that is walked, each size is a box of its own."""


@dataclass
class Walk:
    """One sweep, under way or done."""

    sweep: Sweep
    base: Case
    """At its own sizes of the other dims, the first dtypes, plainly laid out."""
    seen: dict[int, bool] = field(default_factory=dict)
    """By size, True where any run of it was wrong."""
    plain: dict[int, list[tuple[Case, bool]]] = field(default_factory=dict)
    """Plainly laid out cases, and whether they were wrong, by size."""
    worst: tuple[Case, CandidateFailure] | None = None
    """The failure at the smallest size."""
    left_out: list[str] = field(default_factory=list)
    """What was not run, and why, one sentence each."""

    @property
    def swept(self) -> Swept:
        """As evidence."""
        sizes = sorted(self.seen)
        step = math.gcd(*(after - before for before, after in itertools.pairwise(sizes))) or self.sweep.step
        wrong = ranges((size for size in sizes if self.seen[size]), step)
        return Swept(sweep=self.sweep, base=self.base.where(), step=step, ran=ranges(sizes, step), wrong=wrong)

    def along(self, line: Line) -> Along:
        """As what was seen along a dim; `line` is that dim's, through the base.

        Where every legal size of the dim was run in the dtypes of the failure, plainly, that is what was seen: dtypes
        and layouts that were drawn by lot would look like a rule of sizes. Else it is whatever failed.
        """
        worst = self.worst[0] if self.worst else self.base
        line = line.through(self.base.model_copy(update={"dtypes": worst.dtypes}), most=MOST_ELEMENTS)
        seen = {
            size: any(wrong for case, wrong in ran if case.dtypes == worst.dtypes)
            for size, ran in self.plain.items()
            if any(case.dtypes == worst.dtypes for case, _ in ran)
        }
        if worst.layouts != self.base.layouts or not self._covers(line, seen):
            return Along(line, dict(self.seen), ended=False)
        return Along(line, seen, rule_of(seen) if any(seen.values()) else None, whole=True)

    def _covers(self, line: Line, seen: Collection[int]) -> bool:
        """Whether every legal size of the dim is among those."""
        inside = all(size in seen or not line.legal(size) for size in range(self.sweep.low, self.sweep.high + 1))
        return (
            inside
            and line.barren(line.low - 1, self.sweep.low)
            and line.barren(self.sweep.high, line.declared_high + 1)
        )

    def regions(self, dtype_sets: Sequence[dict[str, str]]) -> tuple[Region, ...]:
        """Boxes in which every size was run and right, by dtypes."""
        if self.sweep.step > 1:
            return ()
        found = [box for dtypes in dtype_sets for box in self._boxes(dtypes)]
        return tuple(found[:MOST_BOXES])

    def _boxes(self, dtypes: dict[str, str]) -> Iterator[Region]:
        """None unless every size that was run was run with these dtypes."""
        cases = {size: one for size, ran in self.plain.items() for one, _ in ran if one.dtypes == dtypes}
        if len(cases) < len(self.seen):
            return
        others: dict[tuple[tuple[str, int], ...], list[int]] = {}
        for size, case in cases.items():
            if not self.seen[size]:
                rest = tuple((name, n) for name, n in case.dims.items() if name != self.sweep.name)
                others.setdefault(rest, []).append(size)
        for rest, sizes in others.items():
            for low, high in ranges(sizes):
                yield Region(
                    dims={self.sweep.name: (low, high), **{name: (n, n) for name, n in rest}},
                    dtypes=dtypes,
                    layouts=self.base.layouts,
                    scalars=self.base.scalars,
                    status=RegionStatus.SWEPT,
                )


def walk(
    op: LoadedOperator,
    sweep: Sweep,
    run: Run,
    *,
    seed: int,
    turn: Callable[[], AbstractContextManager[None]],
    tell: Callable[[str], None],
    seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Walk:
    """Run a case at every size of the sweep.

    Args:
        seed: of the lots that draw dtypes and layouts.
        turn: entered while cases are run; other jobs may have the device in between.
        tell: hears how far it is, in words.
        seconds: at most so many for everything; None: as long as each pass is worth.

    Raises UsageError where none of its sizes is possible.
    """
    begin = clock()
    most = min(MIXED_SECONDS, seconds or MIXED_SECONDS), min(WHOLE_SECONDS, seconds or WHOLE_SECONDS)
    done = Walk(sweep, based(op, sweep))
    line = Line(op, done.base, sweep.name, most=MOST_ELEMENTS)
    walking = _Passes(run, done, turn, tell, clock)
    cases = [case for case in map(line.at, sweep.sizes) if case is not None]
    illegal = sum(not line.legal(size) for size in sweep.sizes)
    if not cases:
        raise UsageError(
            f"sweep {sweep}: none of these sizes is legal and small enough to run", "see where= of the operator"
        )
    if illegal:
        done.left_out.append(f"{illegal:,} sizes of {sweep} are not legal")
    if large := len(sweep.sizes) - illegal - len(cases):
        done.left_out.append(f"{large:,} sizes of {sweep} are too large: more than {MOST_ELEMENTS:,} input elements")
    if not walking.through(_mixed(op, cases, seed), begin + most[0], "dtypes and layouts mixed"):
        left = len(cases) - len(done.seen)
        done.left_out.append(f"{left:,} sizes of {sweep}: {walking.why}")
        return done
    for number, rest in enumerate(_rest(op, done, cases)):
        if not walking.through(rest, begin + most[1], f"pass {number + 2}, in other dtypes"):
            done.left_out.append(f"not every size of {sweep} in every dtype: {walking.why}")
            break
    return done


def based(op: LoadedOperator, sweep: Sweep) -> Case:
    """A plain case with small dims, from which the sweep departs; where relations forbid that, the smallest workload
    with its other dims brought down as far as they can be."""
    plain = {"layouts": plain_layouts(op), "dtypes": op.dtype_sets[0]}
    workload = min(workload_cases(op), key=lambda case: elements(op, case.dims)).model_copy(update=plain)
    small = {dim.name: min(max(SMALL, dim.low), dim.high) for dim in op.dims}
    if (dims := nearest(op, small | {sweep.name: sweep.low})) is not None:
        return resized(op, workload, dims)
    case = resized(op, workload, workload.dims)
    for name in small.keys() - {sweep.name}:
        line = Line(op, case, name)
        size = line.towards(min(small[name], line.here), line.here)
        case = case if size is None else line.case(size)
    return case


@dataclass
class _Passes:
    run: Run
    done: Walk
    turn: Callable[[], AbstractContextManager[None]]
    tell: Callable[[str], None]
    clock: Callable[[], float]
    ended: int = 0
    """Processes that cases ended so far."""
    why: str = ""
    """Why a pass came to no end."""

    def through(self, cases: Sequence[Case], deadline: float, doing: str) -> bool:
        """Run them all; False where it had to stop before."""
        name = self.done.sweep.name
        for start in range(0, len(cases), TURN):
            wrong = sum(self.done.seen.values())
            self.tell(f"sweep {self.done.sweep}: {start:,} of {len(cases):,} sizes, {wrong:,} wrong ({doing})")
            with self.turn():
                for case in cases[start : start + TURN]:
                    if self.clock() >= deadline:
                        self.why = f"the time was up at {name}={case.dims[name]}"
                    elif self.ended >= MOST_ENDED:
                        self.why = f"given up after {self.ended} sizes that ended its process"
                    if self.why:
                        return False
                    self.one(case)
        return True

    def one(self, case: Case) -> None:
        size, failure = case.dims[self.done.sweep.name], self.run(case)
        self.done.seen[size] = self.done.seen.get(size, False) or failure is not None
        if case.layouts == self.done.base.layouts:
            self.done.plain.setdefault(size, []).append((case, failure is not None))
        if failure is None:
            return
        self.ended += failure.outcome in ENDED
        if self.done.worst is None or size < self.done.worst[0].dims[self.done.sweep.name]:
            self.done.worst = (case, failure)


def _mixed(op: LoadedOperator, cases: Sequence[Case], seed: int) -> list[Case]:
    """Each size once, its dtypes and layouts drawn by lot; half of them plainly laid out."""
    lots = random.Random(seed)
    layouts = _layouts(op)
    found = []
    for case in cases:
        dtypes, laid = lots.choice(op.dtype_sets), lots.choice(layouts)
        laid = laid if lots.random() < 0.5 else case.layouts
        found.append(case.model_copy(update={"dtypes": dtypes, "layouts": laid}))
    return found


def _layouts(op: LoadedOperator) -> list[dict[str, str]]:
    """All plain, then each other layout of each tensor alone."""
    plain = plain_layouts(op)
    found = [plain]
    for name, spec in op.arguments.items():
        if isinstance(spec, TensorSpec):
            rest = {n: layout for n, layout in plain.items() if n != name}
            found += [rest if one is Layout.CONTIGUOUS else rest | {name: one.value} for one in spec.near[1:]]
    return found


def _rest(op: LoadedOperator, done: Walk, cases: Sequence[Case]) -> Iterator[list[Case]]:
    """Passes that run each size plainly in the dtypes that are still missing, one per pass."""
    name = done.sweep.name
    for _ in op.dtype_sets:
        missing: list[Case] = []
        for case in cases:
            ran = [one.dtypes for one, _ in done.plain.get(case.dims[name], ())]
            left = (case.model_copy(update={"dtypes": d}) for d in op.dtype_sets if d not in ran)
            missing += itertools.islice(left, 1)
        if missing:
            yield missing
