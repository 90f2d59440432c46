"""Runs one case of a candidate in processes of its own, again and again, whatever became of it the last time.

A run that ends a process (crash, hang, limits) costs fresh ones; a hang is noticed after a multiple of what right runs
took. Invariant: what the machine does is never the candidate's failure: it raises InfrastructureError, and who is
killed from outside is tried again. Used by `locate` through `Runs`, and by `sweep`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from enum import Enum, auto

from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.check.examine import Examiner, key
from kernelsmith.evaluate.sessions.failure import CandidateFailure, KilledFailure
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evaluate.truth.truths import Truths
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Outcome
from kernelsmith.sandbox.wire.messages import Load

LEAST_SECONDS = 2.0
"""Of any run but the first: it may compile a kernel, on a machine where others are at work."""
MULTIPLE = 10.0
"""Times the longest right run so far."""
PATIENCE = 4.0
"""Times that, for a candidate that is slow for once though it is not known to hang."""
LOAD_SECONDS = 30.0
TRUTH_BYTES = 64 << 20
"""Of truths that are kept: nearly every run has a case of its own."""
MOST_FAILURES = 100
"""After so many, processes are replaced: a launcher keeps the plans that failed."""
ENDED = frozenset({Outcome.CRASHED, Outcome.TIMEOUT, Outcome.MEMORY, Outcome.SANDBOX_VIOLATION})
"""Outcomes after which a process is gone, or not to be trusted with another case."""


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
        start: Callable[[], AbstractContextManager[Pair]],
        operator: LoadedOperator,
        load: Load,
        *,
        seed: int,
        first_seconds: float,
        hangs: bool = False,
        examiner: Callable[[LauncherSession], Examiner] | None = None,
    ) -> None:
        """`start` gives fresh processes, `load` what the candidate loads; without an `examiner` nothing is examined.

        `first_seconds`: what a run may take before any right one shows what is usual. `hangs`: it is known to.
        """
        self._start = start
        self._operator = operator
        self._load = load
        self._seed = seed
        self._first_seconds = first_seconds
        self._hangs = hangs
        self._examiner = examiner
        self._truths = Truths(threads=1, limit_bytes=TRUTH_BYTES)
        self._stack = ExitStack()
        self._pair: Pair | None = None
        self._failures = 0
        self._longest: float | None = None
        self._way = Way.ONCE

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
        ways = (Way.ONCE, Way.WHOLE) if self._examiner is None else tuple(Way)
        for self._way in ways:
            if (failure := self.run(case)) is not None:
                return failure
        return None

    def run(self, case: Case) -> CandidateFailure | None:
        """How the case fails; None where it is right. Raises InfrastructureError, OperatorError."""
        limit = self._first_seconds if self._longest is None else max(LEAST_SECONDS, MULTIPLE * self._longest)
        try:
            failure = self._run(case, limit)
        except KilledFailure:  # once, that is not its own doing
            try:
                failure = self._run(case, limit)
            except KilledFailure as killed:
                failure = killed
        if failure is None or failure.outcome is not Outcome.TIMEOUT or self._hangs:
            return failure
        failure = self._run(case, PATIENCE * limit)
        self._hangs = failure is not None
        return failure

    def outcome(self, case: Case) -> Outcome | None:
        failure = self.run(case)
        return None if failure is None else failure.outcome

    def _run(self, case: Case, limit: float) -> CandidateFailure | None:
        begin = time.monotonic()
        try:
            pair = self._pair or self._fresh()
            self._check(pair, case, limit)
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
        self._longest = max(self._longest or 0.0, time.monotonic() - begin)
        return None

    def _check(self, pair: Pair, case: Case, seconds: float) -> None:
        examiner = self._examiner(pair.launcher) if self._examiner and self._way is Way.EXAMINED else None
        checker = Checker(
            self._truths,
            self._operator,
            pair.candidate,
            pair.launcher,
            seed=self._seed,
            time=OwnTime(seconds),
            examiner=examiner,
            once=self._way is Way.ONCE,
        )
        if self._way is Way.ONCE:
            checker.case(case)
        else:
            checker.cases([case, case], frozenset({key(case)}) if examiner else frozenset())

    def _fresh(self) -> Pair:
        self._stack.close()
        self._failures = 0
        pair = self._stack.enter_context(self._start())
        pair.candidate.load(self._load, None, LOAD_SECONDS)
        self._pair = pair
        return pair
