"""From one failing case to where a candidate fails: the smallest failing input, the region around it, and a sentence.

The order is by worth, since time may end at any point: smallest input, dtypes and other conditions, edges along the
dims, then whether all of this is so at other sizes of the other dims. Invariant: the verdict stands whatever is
found here; what was not tried is not claimed. `evaluate` calls `locate` once a candidate has failed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kernelsmith.evaluate.region.conditions import Conditions, conditions, uneven
from kernelsmith.evaluate.region.edges import Along, along, remembered, so_far
from kernelsmith.evaluate.region.line import Line, resized
from kernelsmith.evaluate.region.runs import Runs, SpentError
from kernelsmith.evaluate.region.smallest import smallest
from kernelsmith.evaluate.region.words import sentence
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evidence import Refuted
from kernelsmith.operators.loaded import LoadedOperator
from kernelsmith.space import Region, RegionStatus

GLANCES = (64, 37, 1024, 2, 257, 768, 130)
"""Sizes at which a dim is looked at that seems not to matter."""
ELSEWHERE = (37, 5, 130, 2)
"""Sizes of the other dims at which a claim is tried again; two of them."""

MOST_CHANGES = 12
"""Sizes beside which a sweep saw the answer change that are tried again in the place of the smallest failing input."""


def locate(op: LoadedOperator, case: Case, runs: Runs, known: Mapping[str, Along] | None = None) -> Refuted | None:
    """Where the candidate fails, beginning at a case that fails; None where that case alone does not fail again.

    Args:
        known: what sweeps saw, by dim. One of a part of the sizes only tells where to look.

    Raises InfrastructureError as a run does.
    """
    try:
        if not runs.wrong(case):
            return None
    except SpentError:
        return None
    search = _Search(op, runs, dict(known or {}), smallest(op, case, runs))
    search.conditions = conditions(op, search.small, runs)
    search.dims()
    search.others()
    return search.refuted()


@dataclass
class _Search:
    op: LoadedOperator
    runs: Runs
    known: dict[str, Along]
    small: Case
    found: list[Along] = field(default_factory=list)
    """Dims whose size matters."""
    free: dict[str, set[int]] = field(default_factory=dict)
    """Dims at whose other sizes all of this was found as well, with the sizes at which it was tried."""
    depends: list[str] = field(default_factory=list)
    conditions: Conditions = field(default_factory=Conditions)
    uneven: str = ""
    """Where else it fails, in words."""
    ended: bool = True

    def dims(self) -> None:
        """Which dims matter, and how."""
        lines = [Line(self.op, self.small, dim.name) for dim in self.op.dims if dim.low < dim.high]
        lines.sort(key=lambda line: line.towards(line.low, line.here) == line.here)  # those that matter for sure first
        for line in lines:
            one = self._swept(line) or self._along(line)
            if one is not None and one.constrained:
                self.found.append(one)

    def _swept(self, line: Line) -> Along | None:
        """What a sweep of the whole dim saw, if that is so in this place too."""
        one = self.known.get(line.name)
        if one is None or not one.whole or resized(self.op, one.line.base, self.small.dims) != self.small:
            return None
        edges = [(edge, step) for edge, step in _edges(one) if edge is not None]
        sizes = [line.here, *(edge for edge, _ in edges), *(line.next(edge, step) for edge, step in edges)]
        try:
            cases = [(size, line.at(size)) for size in sizes if size in one.seen]
            agrees = [self.runs.wrong(case) is one.seen[size] for size, case in cases if case is not None]
        except SpentError:
            self.ended = False
            return one
        return one if all(agrees) else None

    def _along(self, line: Line) -> Along | None:
        """The failing sizes of a dim; None for one that does not matter at a glance."""
        at_low = line.towards(line.low, line.here) == line.here
        try:
            if at_low and all(self.runs.wrong(line.case(size)) for size in _possible(line, (*GLANCES, line.high))):
                return None
        except SpentError:
            self.ended = False
            return so_far(line, self.runs)
        known = self.known.get(line.name)
        return along(line, self.runs, _changes(known.seen) if known else ())

    def _inside(self) -> Case:
        """A failing case away from the edges, along the first dim that matters."""
        for one in self.found:
            wrong = sorted(size for size, failed in one.seen.items() if failed)
            line = Line(self.op, self.small, one.name)
            if (case := line.at(wrong[len(wrong) // 2])) is not None:
                return case
        return self.small

    def others(self) -> None:
        """Whether the claim holds inside the region for other dtypes, and at other sizes of each dim."""
        try:
            self.uneven = uneven(self.op, self._inside(), self.runs, self.conditions)
        except SpentError:
            self.ended = False
            return
        for dim in self.op.dims:
            line = Line(self.op, self.small, dim.name)
            try:
                held = [self._holds(case, dim.name) for case in self._elsewhere(line)]
            except SpentError:
                self.ended = False
                return
            matters = any(one.name == dim.name for one in self.found)
            if not all(held):
                self.depends.append(dim.name)
            elif held and not matters:
                elsewhere = {case.dims[dim.name] for case in self._elsewhere(line)}
                self.free[dim.name] = {line.here, *elsewhere, *remembered(line, self.runs)}

    def _elsewhere(self, line: Line) -> list[Case]:
        """Two cases at other sizes of a dim, at which the claim says wrong if its own dims do."""
        own = next((one for one in self.found if one.name == line.name), None)
        if own is None:
            sizes = [size for size in _possible(line, ELSEWHERE) if size != line.here]
        else:
            wrong = sorted(size for size, failed in own.seen.items() if failed and size != line.here)
            sizes = [*wrong[len(wrong) // 2 : len(wrong) // 2 + 1], *wrong[-1:]] if len(self.found) > 1 else []
        cases = [case for case in map(line.at, dict.fromkeys(sizes)) if case is not None]
        return cases[:2]

    def _holds(self, case: Case, moved: str) -> bool:
        """Whether what is claimed of every other dim is so at another size of `moved`."""
        if not self.runs.wrong(case):
            return False
        for one in self.found:
            if one.name == moved or one.rule is None:
                continue
            line = Line(self.op, case, one.name)
            for edge, step in _edges(one):
                if edge is None or (within := line.at(edge)) is None:
                    continue
                beyond = line.next(edge, step)
                if not self.runs.wrong(within) or (beyond is not None and self.runs.wrong(line.case(beyond))):
                    return False
        return True

    # ------------------------------------------------------------ what came of it

    def refuted(self) -> Refuted:
        outcome = self.runs.outcome(self.small)
        assert outcome is not None, "the smallest input is one that fails"
        ended = self.ended and self.conditions.ended and all(one.ended for one in self.found)
        words = sentence(
            outcome,
            self.small.dims,
            self.found,
            self.conditions.words,
            anywhere=self.free if self.found else {},
            depends=self.depends,
            uneven=self.uneven,
            ended=ended,
        )
        exact = bool(self.found) and not self.depends and not self.uneven and all(one.exact for one in self.found)
        return Refuted(
            smallest=self.small.where(), regions=self.regions(), words=words, exact=exact, runs=self.runs.count
        )

    def regions(self) -> tuple[Region, ...]:
        """Boxes that hold every size found wrong; a class of sizes is held by its hull."""
        dims = {one.name: one.box for one in self.found}
        return tuple(
            Region(
                dims=dims,
                dtypes=dtypes,
                layouts=dict(self.conditions.layouts),
                scalars=dict(self.conditions.scalars),
                status=RegionStatus.REFUTED,
            )
            for dtypes in self.conditions.dtypes or ({},)
        )


def _possible(line: Line, sizes: Iterable[int]) -> list[int]:
    """Those sizes along a line, or the nearest possible ones on the way to the line's own."""
    within = (size for size in sizes if line.low <= size <= line.high)
    return [one for one in dict.fromkeys(line.towards(size, line.here) for size in within) if one is not None]


def _edges(one: Along) -> tuple[tuple[int | None, int], ...]:
    """Both edges of a rule, each with the direction that leaves it."""
    return () if one.rule is None else ((one.rule.low, -1), (one.rule.high, 1))


def _changes(seen: Mapping[int, bool]) -> list[int]:
    """Neighbours of which one was wrong and the other right, a few of them."""
    found = [size for pair in itertools.pairwise(sorted(seen)) if seen[pair[0]] is not seen[pair[1]] for size in pair]
    return found[:: -(-len(found) // MOST_CHANGES)] if found else []
