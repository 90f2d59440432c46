"""Runs one case of a candidate in processes of its own, again and again, whatever became of it the last time.

A run that ends a process (crash, hang, limits) costs fresh ones; a hang is noticed after a multiple of what right runs
took, and what passes while others are at work is not counted. Invariant: what the machine does is never the
candidate's failure: it raises InfrastructureError, who is killed from outside is tried again, and a limit of time or
memory counts as a verdict only where it is met again in fresh processes, with patience (`verdict`). Used by `locate`
through `Runs`, and by `sweep`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from enum import Enum, auto

from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.evaluate.check.examine import Examiner, key
from kernelsmith.evaluate.sessions import allowance
from kernelsmith.evaluate.sessions.failure import CandidateFailure, KilledFailure
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evaluate.truth.margins import Margins
from kernelsmith.evaluate.truth.truths import Truths
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.sandbox.wire.messages import Load
from kernelsmith.triton_cpu.run.cores import crowding

LEAST_SECONDS = 2.0
"""Of any run but the first: it may compile a kernel, on a machine where others are at work."""
MULTIPLE = 10.0
"""Times the longest right run so far."""
PATIENCE = 4.0
"""Times that, for a candidate that is slow for once though it is not known to hang."""
TRUTH_BYTES = 64 << 20
"""Of truths that are kept: nearly every run has a case of its own."""
MOST_FAILURES = 100
"""After so many, processes are replaced: a launcher keeps the plans that failed."""
ENDED = frozenset({Outcome.CRASHED, Outcome.TIMEOUT, Outcome.MEMORY, Outcome.SANDBOX_VIOLATION})
"""Outcomes after which a process is gone, or not to be trusted with another case."""
LIMITED = frozenset({Outcome.TIMEOUT, Outcome.MEMORY})
"""Outcomes that a busy machine may have brought about."""


class Way(Enum):
    """How thoroughly a case is run."""

    ONCE = auto()
    """One call, and one replay of its plan."""
    WHOLE = auto()
    """As in the check, twice, so that fresh memory and the order of programs take turns."""
    EXAMINED = auto()
    """With checked builds of the kernels too."""


@dataclass(frozen=True)
class Pair:
    """A candidate's two processes; the module is not loaded yet."""

    candidate: CandidateSession
    launcher: LauncherSession


class Prober:
    """Runs cases of one candidate; used by one thread. Close it."""

    def __init__(
        self,
        start: Callable[[OwnTime], AbstractContextManager[Pair]],
        operator: LoadedOperator,
        load: Load,
        *,
        seed: int,
        first_seconds: float,
        hangs: bool = False,
        examiner: Callable[[LauncherSession], Examiner] | None = None,
        margins: Margins | None = None,
    ) -> None:
        """`start` gives fresh processes on a clock, `load` what the candidate loads; without an `examiner` nothing is
        examined. `margins`: where to note how near right answers come.

        `first_seconds`: what a run may take before any right one shows what is usual. `hangs`: it is known to.
        """
        self._start = start
        self._operator = operator
        self._load = load
        self._seed = seed
        self._first_seconds = first_seconds
        self._hangs = hangs
        self._examiner = examiner
        self._margins = margins
        self._time = OwnTime()
        self._truths = Truths(threads=1, limit_bytes=TRUTH_BYTES)
        self._stack = ExitStack()
        self._pair: Pair | None = None
        self._failures = 0
        self._longest: float | None = None
        """Seconds of its own time that a right run took."""
        self._way = Way.ONCE
        self._proven: set[Outcome] = set()
        """Limits that were met again, with patience: met at another size, they are the candidate's own."""

    def rest(self) -> None:
        """Between turns its processes stand still."""
        if self._pair is not None:
            self._pair.candidate.rest()
            self._pair.launcher.rest()

    def wake(self) -> None:
        if self._pair is not None:
            self._pair.candidate.wake()
            self._pair.launcher.wake()

    def close(self) -> None:
        """End the processes."""
        self._pair = None
        self._stack.close()

    def reproduce(self, case: Case) -> CandidateFailure | None:
        """Find how thoroughly a case must be run to fail, and run all others like this from here on."""
        self._margins = None  # where answers are wrong is looked for: how far is known
        ways = (Way.ONCE, Way.WHOLE) if self._examiner is None else tuple(Way)
        for self._way in ways:
            if (failure := self.run(case)) is not None:
                return failure
        return None

    def run(self, case: Case) -> CandidateFailure | None:
        """How the case fails; None where it is right. Raises InfrastructureError, OperatorError."""
        limit = self._first_seconds if self._longest is None else max(LEAST_SECONDS, MULTIPLE * self._longest)
        limit = min(limit, allowance.SECONDS[Stage.CHECK])
        failure = self._twice(case, limit)
        if failure is None or failure.outcome is not Outcome.TIMEOUT or self._hangs:
            return failure
        failure = self._twice(case, PATIENCE * limit)
        self._hangs = failure is not None
        return failure

    def verdict(self, case: Case) -> CandidateFailure | None:
        """As `run`, but a failure here may refuse the candidate: a limit of time or memory has to be met once more, by
        fresh processes that may take as long as in the check of one case, and longer on a crowded machine."""
        failure = self.run(case)
        if failure is None or failure.outcome not in LIMITED or failure.outcome in self._proven:
            return failure
        self.close()
        limit = allowance.SECONDS[Stage.CHECK] * crowding()
        failure = self._twice(case, limit)
        if failure is None:
            self._hangs = False
        else:
            self._proven.add(failure.outcome)
        return failure

    def outcome(self, case: Case) -> Outcome | None:
        failure = self.run(case)
        return None if failure is None else failure.outcome

    def _twice(self, case: Case, limit: float) -> CandidateFailure | None:
        """A run, and one more where its process was killed: once, that is not its own doing."""
        try:
            return self._run(case, limit)
        except KilledFailure:
            try:
                return self._run(case, limit)
            except KilledFailure as killed:
                return killed

    def _run(self, case: Case, limit: float) -> CandidateFailure | None:
        try:
            pair = self._pair or self._fresh()
            self._time.restart(limit)
            begin = self._time.now
            self._check(pair, case)
        except CandidateFailure as failure:
            self._failures += 1
            if failure.outcome in ENDED or self._failures >= MOST_FAILURES:
                self.close()
            if isinstance(failure, KilledFailure):
                raise
            return failure
        except BaseException:
            self.close()
            raise
        self._longest = max(self._longest or 0.0, self._time.now - begin)
        return None

    def _check(self, pair: Pair, case: Case) -> None:
        collector = Collector()  # its cases are told elsewhere
        collector.margins = self._margins or collector.margins
        examiner = self._examiner(pair.launcher) if self._examiner and self._way is Way.EXAMINED else None
        checker = Checker(
            self._truths,
            self._operator,
            pair.candidate,
            pair.launcher,
            seed=self._seed,
            time=self._time,
            examiner=examiner,
            collector=collector,
            once=self._way is Way.ONCE,
        )
        if self._way is Way.ONCE:
            checker.case(case)
        else:
            checker.cases([case, case], frozenset({key(case)}) if examiner else frozenset())

    def _fresh(self) -> Pair:
        self._stack.close()
        self._failures = 0
        pair = self._stack.enter_context(self._start(self._time))
        pair.candidate.load(self._load, None, allowance.SECONDS[Stage.LOAD] * crowding())
        self._pair = pair
        return pair
