"""Which configuration of each autotuned kernel serves a workload best: the runner's search, not the candidate's.

Every configuration is recorded and built in isolation and timed by replay; the fastest that also passes the check is
baked in for that workload. Kernels are searched one after the other, the rest staying at the best known so far. The
fault of one configuration is not held against the others, unless none is right.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelsmith.evaluate.check.check import Checker, Proven
from kernelsmith.evaluate.clock.bench import Bench
from kernelsmith.evaluate.clock.gate import Turns
from kernelsmith.evaluate.sessions.failure import FATAL, CandidateFailure
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.model import ConfigChoice, ConfigTime, WorkloadChoice
from kernelsmith.sandbox.wire.messages import Choice, Tunable

SAMPLES = 3
SLOW = 2.0
"""Times the fastest so far: a configuration whose first samples are slower is not sampled again."""
Vector = tuple[Choice, ...]


@dataclass(frozen=True)
class Tried:
    """One configuration of one kernel; no milliseconds where it failed."""

    choice: Choice
    ms: float | None


@dataclass(frozen=True)
class Chosen:
    """The plan of the winning configurations, still in the launcher, and what they are."""

    proven: Proven
    choices: Vector
    tried: tuple[Tried, ...] = ()


@dataclass(frozen=True)
class _Search:
    """What one kernel's search ended with."""

    best: Vector
    tried: tuple[Tried, ...]


@dataclass(frozen=True)
class Dispatch:
    """Winning configurations per workload."""

    picks: tuple[tuple[Case, Vector], ...]
    tried: tuple[tuple[Case, tuple[Tried, ...]], ...] = ()

    def timed(self, tunables: Sequence[Tunable]) -> tuple[ConfigTime, ...]:
        """What every configuration took, in words that the controller understands."""
        by_name = {t.kernel: t for t in tunables}
        return tuple(
            ConfigTime(
                kernel=one.choice.kernel,
                text=by_name[one.choice.kernel].configs[one.choice.config],
                workload=case.workload.label,
                ms=one.ms,
            )
            for case, found in self.tried
            if case.workload is not None
            for one in found
        )

    def vectors(self) -> list[Vector]:
        """The distinct ones that are not every kernel's first configuration."""
        return list(dict.fromkeys(v for _, v in self.picks if any(c.config for c in v)))

    def described(self, tunables: Sequence[Tunable]) -> tuple[WorkloadChoice, ...]:
        by_name = {t.kernel: t for t in tunables}
        return tuple(
            WorkloadChoice(
                workload=case.workload,
                configs=tuple(
                    ConfigChoice(kernel=c.kernel, index=c.config, text=by_name[c.kernel].configs[c.config])
                    for c in vector
                ),
            )
            for case, vector in self.picks
            if case.workload is not None and vector
        )


def choose(
    checker: Checker,
    bench: Bench,
    gate: Turns,
    case: Case,
    number: int,
    tunables: Sequence[Tunable],
    *,
    seconds: float,
) -> Chosen:
    """The fastest right configurations for one workload. Raises CandidateFailure if none is right."""
    with gate.shared():
        first = checker.variant(case, ())
        checker.forget(first)
    launched = {choice.kernel for choice in first.used}
    best: Vector = tuple(Choice(kernel=t.kernel, config=0) for t in tunables if t.kernel in launched)
    deadline = time.monotonic() + seconds
    tried: list[Tried] = []
    for tunable in tunables:
        if tunable.kernel in launched and len(tunable.configs) > 1:
            found = _search(checker, bench, gate, case, number, list(_variants(best, tunable)), tunable, deadline)
            best = found.best
            tried += found.tried
    with gate.shared():
        return Chosen(checker.case(case, best, keep=True), best, tuple(tried))


def _variants(base: Vector, tunable: Tunable) -> Iterator[Vector]:
    for index in range(len(tunable.configs)):
        yield tuple(Choice(kernel=c.kernel, config=index) if c.kernel == tunable.kernel else c for c in base)


def _search(
    checker: Checker,
    bench: Bench,
    gate: Turns,
    case: Case,
    number: int,
    vectors: Sequence[Vector],
    tunable: Tunable,
    deadline: float,
) -> _Search:
    """The fastest vector that passes. Past the deadline those not built yet are left out; the first two never are."""
    built: list[tuple[Vector, Proven]] = []
    failed: list[Vector] = []
    twins: list[tuple[Vector, Vector]] = []
    failure: CandidateFailure | None = None
    for position, vector in enumerate(vectors):
        if position >= 2 and time.monotonic() > deadline:
            break
        try:
            with gate.shared():
                variant = checker.variant(case, vector)
        except CandidateFailure as refused:
            failure = _survived(refused)
            failed.append(vector)
            continue
        twin = next((v for v, other in built if variant.plan.canonical() == other.plan.canonical()), None)
        if twin is not None:
            checker.forget(variant)  # differs only in what this device ignores
            twins.append((vector, twin))
        else:
            built.append((vector, variant))
    timed: list[tuple[float, Vector]] = []
    with gate.exclusive():
        for vector, proven in built:
            fastest = min((ms for ms, _ in timed), default=math.inf)
            try:
                timed.append((bench.quick(bench.lane(number, proven, ()), SAMPLES, hopeless=SLOW * fastest), vector))
            except CandidateFailure as refused:
                failure = _survived(refused)
                failed.append(vector)
            checker.forget(proven)
    for _, vector in sorted(timed, key=lambda pair: pair[0]):
        try:
            with gate.shared():
                checker.case(case, vector)
        except CandidateFailure as refused:
            failure = _survived(refused)
            failed.append(vector)
        else:
            times = [(ms, one) for ms, one in timed if one not in failed]
            times += [(ms, twin) for ms, one in times for twin, like in twins if like == one]
            return _Search(vector, (*_tried(tunable, times), *_tried(tunable, [(None, one) for one in failed])))
    assert failure is not None
    raise failure


def _tried(tunable: Tunable, times: Sequence[tuple[float | None, Vector]]) -> Iterator[Tried]:
    for ms, vector in times:
        yield Tried(next(choice for choice in vector if choice.kernel == tunable.kernel), ms)


def _survived(refused: CandidateFailure) -> CandidateFailure:
    """The fault of one configuration, unless it has ended the candidate: then it is raised."""
    if refused.outcome in FATAL:
        raise refused
    return refused
