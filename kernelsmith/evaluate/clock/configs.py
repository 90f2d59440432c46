"""Which configuration of each autotuned kernel serves a workload best: the runner's search, not the candidate's.

Every configuration is recorded and built in isolation and timed by replay; the fastest that also passes the check is
baked in for that workload. Kernels are searched one after the other, the rest staying at the best known so far. The
fault of one configuration is not held against the others, unless none is right.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernelsmith.evaluate.check.check import Checker, Proven
from kernelsmith.evaluate.clock.bench import Bench
from kernelsmith.evaluate.clock.gate import Turns
from kernelsmith.evaluate.sessions.failure import FATAL, CandidateFailure
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.model import ConfigChoice, WorkloadChoice
from kernelsmith.sandbox.wire.messages import Choice, Tunable

SAMPLES = 3
Vector = tuple[Choice, ...]


@dataclass(frozen=True)
class Chosen:
    """The plan of the winning configurations, still in the launcher, and what they are."""

    proven: Proven
    choices: Vector


@dataclass(frozen=True)
class Dispatch:
    """Winning configurations per workload."""

    picks: tuple[tuple[Case, Vector], ...]

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
    for tunable in tunables:
        if tunable.kernel in launched and len(tunable.configs) > 1:
            best = _search(checker, bench, gate, case, number, list(_variants(best, tunable)), deadline)
    with gate.shared():
        return Chosen(checker.case(case, best, keep=True), best)


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
    deadline: float,
) -> Vector:
    """The fastest vector that passes. Past the deadline those not built yet are left out; the first two never are."""
    built: list[tuple[Vector, Proven]] = []
    failure: CandidateFailure | None = None
    for position, vector in enumerate(vectors):
        if position >= 2 and time.monotonic() > deadline:
            break
        try:
            with gate.shared():
                variant = checker.variant(case, vector)
        except CandidateFailure as refused:
            failure = _survived(refused)
            continue
        if any(variant.plan.canonical() == other.plan.canonical() for _, other in built):
            checker.forget(variant)  # differs only in what this device ignores
        else:
            built.append((vector, variant))
    timed: list[tuple[float, Vector]] = []
    with gate.exclusive():
        for vector, proven in built:
            try:
                timed.append((bench.quick(bench.lane(number, proven, ()), SAMPLES), vector))
            except CandidateFailure as refused:
                failure = _survived(refused)
            checker.forget(proven)
    for _, vector in sorted(timed, key=lambda pair: pair[0]):
        try:
            with gate.shared():
                checker.case(case, vector)
        except CandidateFailure as refused:
            failure = _survived(refused)
        else:
            return vector
    assert failure is not None
    raise failure


def _survived(refused: CandidateFailure) -> CandidateFailure:
    """The fault of one configuration, unless it has ended the candidate: then it is raised."""
    if refused.outcome in FATAL:
        raise refused
    return refused
