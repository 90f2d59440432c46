"""Where along one dim does a candidate begin and cease to be wrong?

From a size that is wrong: steps that double until one is right, then halves between the two; the same downwards. Sizes
of other kinds (powers of two, odd ones, multiples) are tried beside, since a failure need not be an interval. At most
`RUNS_PER_EDGE` times the logarithm of the range for each of the two edges. Invariant: what is returned as a rule
explains every size that was run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from kernelsmith.evaluate.region.line import Line
from kernelsmith.evaluate.region.pattern import Rule, rule_of, telling
from kernelsmith.evaluate.region.runs import Runs, SpentError

RUNS_PER_EDGE = 2.5
"""Times log2 of the range, for each edge; the search for the smallest input has run half of one such already."""
SAMPLES = 1.5
"""Times log2 of the range: sizes of all kinds that are tried."""
ATTEMPTS = 3
"""Rules that are tried on sizes which would refute them."""
DOUBTS = 6
"""Such sizes for each."""


@dataclass
class Along:
    """What was seen along one dim."""

    line: Line
    seen: dict[int, bool] = field(default_factory=dict)
    """True where it was wrong."""
    rule: Rule | None = None
    """What the sizes at which it is wrong have in common; None: nothing that was thought of."""
    ended: bool = True
    """The search came to its end; False where time or runs did."""
    whole: bool = False
    """Every legal size of the dim was run, as a sweep does."""

    @property
    def name(self) -> str:
        return self.line.name

    @property
    def constrained(self) -> bool:
        """Whether it is right at some sizes of this dim."""
        return not all(self.seen.values())

    @property
    def exact(self) -> bool:
        """Every edge was run on both of its sides, and the last legal size where there is none; of a class of sizes,
        some members and their neighbours."""
        if self.rule is None or not self.ended:
            return False
        edges = ((self.rule.low, -1), (self.rule.high, 1))
        return all(self._reached(step) if edge is None else self._confirmed(edge, step) for edge, step in edges)

    @property
    def box(self) -> tuple[int, int]:
        """The smallest range that holds every wrong size: as far as the rule goes, but no further than was run."""
        wrong = [size for size, failed in self.seen.items() if failed]
        if self.rule is None:
            return min(wrong), max(wrong)
        low = self.line.low if self._reached(-1) else min(wrong)
        high = self.line.declared_high if self._reached(1) else max(wrong)
        return low if self.rule.low is None else self.rule.low, high if self.rule.high is None else self.rule.high

    def _confirmed(self, edge: int, step: int) -> bool:
        beyond = self.line.next(edge, step)
        if beyond is None or self.seen.get(edge) is not True:
            return False
        return self.seen.get(beyond) is False and self.line.barren(edge, beyond)

    def _reached(self, step: int) -> bool:
        """Whether the last legal size in a direction was run."""
        limit = self.line.low if step < 0 else self.line.declared_high
        last = min(self.seen) if step < 0 else max(self.seen)
        return self.line.barren(last, limit + step)


def along(line: Line, runs: Runs, hints: Sequence[int] = ()) -> Along:
    """The failing sizes of a dim, from the line's base case, which is wrong. Never raises SpentError.

    `hints`: sizes that are tried for sure, since a sweep saw the answers change there.
    """
    search = _Search(line, runs, hints)
    search.found.seen.update(remembered(line, runs))
    try:
        search.edge(1)
        search.edge(-1)
        search.sample()
        search.settle()
    except SpentError:
        search.found.ended = False
        search.found.rule = rule_of(search.found.seen)
    return search.found


def remembered(line: Line, runs: Runs) -> dict[int, bool]:
    """What is known along a line from runs that others asked for."""
    cases = ((case.dims[line.name], case, wrong) for case, wrong in runs.known())
    return {size: wrong for size, case, wrong in cases if line.at(size) == case}


def so_far(line: Line, runs: Runs) -> Along:
    """The same as `along` without any further run."""
    seen = {line.here: True, **remembered(line, runs)}
    return Along(line, seen, rule_of(seen), ended=False)


class _Search:
    def __init__(self, line: Line, runs: Runs, hints: Sequence[int]) -> None:
        self.line = line
        self.runs = runs
        self.hints = hints
        self.found = Along(line, {line.here: True})
        self.bits = math.log2(max(2, line.high - line.low + 1))
        self._last = runs.count + math.ceil(2 * RUNS_PER_EDGE * self.bits) + len(hints)

    def wrong(self, size: int) -> bool:
        """Raises SpentError where this dim has had its share too."""
        case = self.line.case(size)
        if not self.runs.knows(case) and self.runs.count >= self._last:
            raise SpentError
        self.found.seen[size] = self.runs.wrong(case)
        return self.found.seen[size]

    def edge(self, direction: int) -> None:
        """Find the last wrong size in a direction, and the first right one next to it, if there is one."""
        bad, good = self._steps(direction)
        if good is None:
            return
        while (middle := self.line.between(min(good, bad), max(good, bad))) is not None:
            good, bad = (good, middle) if self.wrong(middle) else (middle, bad)

    def _steps(self, direction: int) -> tuple[int, int | None]:
        """Steps that double: the last size that was wrong, and the right one that ended them (None: the dim did)."""
        limit = self.line.high if direction > 0 else self.line.low
        bad = self.line.here
        for power in itertools.count():
            wanted = self.line.here + direction * (1 << power)
            wanted = min(wanted, limit) if direction > 0 else max(wanted, limit)
            size = None if bad == limit else self.line.towards(wanted, bad + direction)
            if size is not None and not self.wrong(size):
                return bad, size
            bad = bad if size is None else size
            if wanted == limit:
                return bad, None
        raise AssertionError("the steps reach the end of any dim")

    def sample(self) -> None:
        """Both ends, the hints, and sizes of all kinds."""
        ends = (self.line.towards(end, self.line.here) for end in (self.line.low, self.line.high))
        for size in (*ends, *self.hints):
            if size is not None and self.line.at(size) is not None:
                self.wrong(size)
        fresh = (size for size in _assorted(self.line) if size not in self.found.seen)
        for size in itertools.islice(fresh, math.ceil(SAMPLES * self.bits)):
            self.wrong(size)

    def settle(self) -> None:
        """Find a rule, and try to refute it."""
        for _ in range(ATTEMPTS):
            self.found.rule = rule = rule_of(self.found.seen)
            if rule is None:
                self._spread()
                self.found.rule = rule = rule_of(self.found.seen)
            if rule is None:
                return
            doubts = telling(rule, self.line.low, self.line.high, self.found.seen)
            for size in itertools.islice((s for s in doubts if self.line.at(s) is not None), DOUBTS):
                self.wrong(size)
            if rule.explains(self.found.seen):
                return
        self.found.rule = rule_of(self.found.seen)

    def _spread(self) -> None:
        """A few more, evenly in the logarithm."""
        for step in range(1, DOUBTS):
            wanted = round(self.line.low + 2 ** (self.bits * step / DOUBTS)) | 1
            if (size := self.line.towards(min(wanted, self.line.high), self.line.high)) is not None:
                self.wrong(size)


def _assorted(line: Line) -> Iterator[int]:
    """Possible sizes along a line, the most telling first: powers of two, odd ones, multiples of what vectors and
    blocks are, and of the size that failed."""
    here = line.here
    powers = [1 << k for k in (6, 10, 4, 8, 12, 5, 7, 3, 11, 9, 13, 14, 2)]
    others = [63, 96, 1000, 257, 2 * here, 192, 33, 48, 3 * here, 1536, 521, 24, here + 64, 2049, 100, 7, here + 16]
    woven = [one for pair in itertools.zip_longest(others, powers) for one in pair if one is not None]
    for size in dict.fromkeys(woven):
        if line.low <= size <= line.high and line.at(size) is not None:
            yield size
