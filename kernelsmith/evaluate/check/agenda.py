"""What one check tries, in which order, and for how long.

Where earlier candidates of the run failed comes first, then the small cases of the quick level, sizes around the blocks
that the candidate's own plans show, the tuned workloads, and what the level has beyond. Invariant: the quick cases and
workloads are tried whatever the time that a level has by itself; a time that the user set cuts all but the workloads;
what was cut is said. `evaluate` drives a Checker with it.
"""

from __future__ import annotations

import ast
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.evaluate.truth.explore import ELEMENTS, FIRST, WALKED, around, cases, revisited
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.model import CHECK_SECONDS, Job
from kernelsmith.operators.declare import Layout, TensorSpec, Word
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Level
from kernelsmith.sandbox.wire.messages import Tunable

CASES_SHARE = 0.75
"""Of the time of a check, what its cases may take."""
MOST_SEEN = {Level.QUICK: 2, Level.FULL: 4, Level.EXHAUSTIVE: 8}
"""Block sizes that only plans show whose neighbours are tried."""
MOST_AROUND = {Level.QUICK: 8, Level.FULL: 40, Level.EXHAUSTIVE: 80}
"""Cases around those blocks."""


_CONFIG_NUMBER = re.compile(r": (\d{1,6})\b")
"""A number in the dict that a config is written as."""


class Budget:
    """The wall seconds of a check."""

    def __init__(self, job: Job) -> None:
        self.seconds = job.check_seconds or CHECK_SECONDS[job.level]
        self.given = job.check_seconds is not None
        """The user set it."""
        self._end = time.monotonic() + self.seconds

    @property
    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())

    @property
    def over(self) -> bool:
        return self.left == 0

    @property
    def spent_on_cases(self) -> bool:
        """No further case is begun: the rest is for calls in a row, repeats and what else follows them."""
        return self.left <= (1 - CASES_SHARE) * self.seconds


class Agenda:
    """The cases of one check, each handed out once, in two parts; `tried` are those that were."""

    def __init__(
        self, operator: LoadedOperator, job: Job, blocks: Sequence[int], seen: Counter[int], budget: Budget
    ) -> None:
        """`blocks` are known beforehand; `seen` fills up while the check runs: in how many plans a size occurs."""
        self._operator = operator
        self._job = job
        self._known = blocks
        self._seen = seen
        self._budget = budget
        listed = cases(operator, level=job.level, seed=job.seed, blocks=blocks)
        small = [case for case in listed if case.workload is None]
        self.workloads = [case for case in listed if case.workload is not None]
        first = max(1, FIRST - len(self.workloads))
        again = revisited(operator, job.revealing)
        self._first = [*again, *(case for case in small[:first] if case not in again)]
        self._rest = [case for case in small[first:] if case not in again]
        self.tried: list[Case] = []

    @property
    def planned(self) -> list[Case]:
        """All of it but for the sizes that follow from plans."""
        return [*self._first, *self._rest, *self.workloads]

    def first(self) -> Iterator[Case]:
        """What every level tries."""
        yield from self._handed(self._first, cut=self._budget.given)
        yield from self._handed(self._around(), cut=True)
        yield from self._handed(self.workloads, cut=False)

    def more(self) -> Iterator[Case]:
        """What the level has beyond, as far as the time goes."""
        yield from self._handed(self._rest, cut=True)

    def tell(self, collector: Collector) -> None:
        """Say what was left out."""
        done = {case.model_dump_json() for case in self.tried}
        why = f"the time for cases ({CASES_SHARE * self._budget.seconds:g} of {self._budget.seconds:g} s) was up"
        planned = self.planned
        if left := sum(case.model_dump_json() not in done for case in planned):
            level = self._job.level.value
            collector.leave_out(f"{left} of {len(planned)} cases of level {level} were not run: {why}")
        for dim in self._operator.dims if self._job.level is Level.EXHAUSTIVE else ():
            if dim.high > WALKED:
                collector.leave_out(f"sizes of {dim.name} above {WALKED} were sampled, not walked")
        most = ELEMENTS[self._job.level]
        collector.leave_out(f"no case of more than {most:,} input elements, but for tuned workloads and walked sizes")
        for sentence in unasked(self._operator):
            collector.leave_out(sentence)

    def _handed(self, some: Sequence[Case], *, cut: bool) -> Iterator[Case]:
        for case in some:
            if cut and self._budget.spent_on_cases:
                return
            self.tried.append(case)
            yield case

    def _around(self) -> list[Case]:
        """Around sizes that at least half of the plans so far have: those of others follow from the shapes."""
        plans = len(self.tried)
        often = [size for size, count in self._seen.most_common() if 2 * count >= plans and size not in self._known]
        blocks = often[: MOST_SEEN[self._job.level]]
        found = around(self._operator, level=self._job.level, seed=self._job.seed, blocks=blocks)
        return [case for case in found if case not in self.tried][: MOST_AROUND[self._job.level]]


def named_blocks(source: str, tunables: Sequence[Tunable]) -> list[int]:
    """Sizes that the candidate's text names: powers of two from 16 on and numbers of its configs, which are likely
    blocks, then all other numbers, which may be sizes that it treats apart."""
    found = {n.value for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Constant) and type(n.value) is int}
    found = {n for n in found if 4 < n <= 1 << 16}
    sizes = {n for n in found if n >= 16 and n & (n - 1) == 0}
    for tunable in tunables:
        for config in tunable.configs:
            sizes |= {int(n) for n in _CONFIG_NUMBER.findall(config.partition("}")[0]) if 4 < int(n) <= 1 << 16}
    return [*sorted(sizes), *sorted(found - sizes)]


def unasked(operator: LoadedOperator) -> list[str]:
    """What no level tries because the declaration does not allow it, in sentences."""
    specs: Mapping[str, TensorSpec] = {n: s for n, s in operator.arguments.items() if isinstance(s, TensorSpec)}
    floats = [n for n, s in specs.items() if any(d[n].startswith(("float", "bfloat")) for d in operator.dtype_sets)]
    finite = [n for n in floats if not specs[n].words & {Word.ANY, Word.NAN, Word.INF, Word.MINUS_INF}]
    said = []
    if finite:
        said.append(f'no NaN and no infinity in {", ".join(finite)}: not declared (values="any")')
    dense = [n for n, s in specs.items() if s.layouts == (Layout.CONTIGUOUS,) and s.shape]
    if dense:
        said.append(f"contiguous {', '.join(dense)} only: no other layout is declared (layouts=)")
    return said
