"""One job from source text to verdict: screen, load, check, choose configurations, measure.

Owns the order of the stages and turns a candidate's failure, wherever it fell, into its Evaluation. Infrastructure
errors pass through. Checks share the device with other jobs; the measurement has it alone.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, field

from kernelsmith.compiled import Chip
from kernelsmith.evaluate import facts
from kernelsmith.evaluate.check import aside
from kernelsmith.evaluate.check.agenda import Agenda, Budget, named_blocks
from kernelsmith.evaluate.check.aside import assumptions, narrow_offsets
from kernelsmith.evaluate.check.check import Checker, Proven
from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.evaluate.check.configurations import refuse_wrong
from kernelsmith.evaluate.check.examine import Examiner, examined
from kernelsmith.evaluate.check.screen import screen
from kernelsmith.evaluate.clock import noise
from kernelsmith.evaluate.clock.bench import POOL, Bench, host_alone
from kernelsmith.evaluate.clock.compact import served_by_fewer
from kernelsmith.evaluate.clock.configs import Dispatch, Vector, choose
from kernelsmith.evaluate.clock.gate import Turns
from kernelsmith.evaluate.clock.outer import OuterClock
from kernelsmith.evaluate.extent import Extent, load_request
from kernelsmith.evaluate.repeat.repeat import Repeater
from kernelsmith.evaluate.room.admission import Place
from kernelsmith.evaluate.room.room import Room
from kernelsmith.evaluate.sessions import allowance
from kernelsmith.evaluate.sessions.failure import CandidateFailure, KilledFailure, standing
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.sessions.stuck import DoubtError
from kernelsmith.evaluate.truth.explore import far, sequence, workload_cases
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.execute import Tell, quiet
from kernelsmith.model import Evaluation, Job, StageSeconds, Timing
from kernelsmith.operators.declare import Layout
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.messages import Tunable
from kernelsmith.space import Region, RegionStatus

CASES_ELSEWHERE = 8
REPEATS_SHARE = 0.5
"""Of the time that a user set and cases left, what repeats may take where dims are walked after them."""


@dataclass
class _Clock:
    """Wall seconds by stage, as they pass."""

    begin: float = field(default_factory=time.monotonic)
    check: float = 0.0
    bench: float = 0.0
    compile: float = 0.0

    def seconds(self) -> StageSeconds:
        total = time.monotonic() - self.begin
        check = max(0.0, self.check - self.compile)
        return StageSeconds(compile=self.compile, check=check, bench=self.bench, total=total)


def evaluate(job: Job, room: Room, tell: Tell = quiet, *, screened: bool = True, walks: bool = True) -> Evaluation:
    """The verdict on one candidate; `tell` hears why it waits for a place on this machine.

    Without the screen, which the drill leaves out to show that it is never the last line of defence, the rest holds.
    `walks`: whether dims are walked, as the job asks or its level does.
    Raises UsageError, SandboxError, InfrastructureError.
    """
    operator = room.operator(job.operator)
    operator.info.refuse_impossible(job.sweeps)
    job = facts.asked(job, room)
    clock = _Clock()
    if screened and (refused := screen(job.source, entry=operator.info.name)):
        return refused.model_copy(update={"seconds": clock.seconds()})
    kind = f"{operator.info.digest} {job.level} {job.bench}"
    try:
        with room.admission.admitted(kind, allowance.guess(room.sizes(operator)), tell) as place:
            try:
                evaluation = _verdict(job, room, operator, clock, place, tell, walks=walks)
            except KilledFailure:  # once, that is not the candidate's fault
                evaluation = _verdict(job, room, operator, clock, place, tell, walks=walks, last=True)
    except DoubtError as doubt:
        room.probe()  # raises where the machine is to blame
        message = f"its kernels ran, and then the launcher process claimed that the machine is broken: {doubt.message}"
        evaluation = CandidateFailure(Outcome.CRASHED, message, stage=Stage.CHECK).evaluation()
    return evaluation.model_copy(update={"seconds": clock.seconds(), "confinement": room.confinement})


def _verdict(
    job: Job,
    room: Room,
    operator: LoadedOperator,
    clock: _Clock,
    place: Place,
    tell: Tell,
    *,
    walks: bool,
    last: bool = False,
) -> Evaluation:
    """One attempt; the `last` one blames the candidate whoever killed its processes, else that raises KilledFailure."""
    ranges = {dim.name: (dim.low, dim.high) for dim in operator.dims}
    collector = Collector(job.level, dims=ranges, versions=room.versions, tolerance=operator.policy)
    with closing(Extent(job, room, operator, place, collector, tell, walks=walks)) as extent:
        evaluation, evaluating = _attempt(job, room, operator, clock, place, extent, last=last)
        if evaluation.outcome is not Outcome.PASSED:
            begin = time.monotonic()
            evaluation = extent.follow(evaluation, evaluating.chosen, evaluating.budget)
            clock.check += time.monotonic() - begin
    return evaluation.model_copy(update={"evidence": collector.evidence(clock.check)})


def _attempt(
    job: Job, room: Room, operator: LoadedOperator, clock: _Clock, place: Place, extent: Extent, *, last: bool
) -> tuple[Evaluation, _Evaluating]:
    """With the two processes of the check; where a failure holds is not looked for yet."""
    collector = extent.collector
    limits = allowance.limits(room.sizes(operator), room.threads, on_card=room.card.node is not None)
    own_time = OwnTime(job.seconds)
    with (
        closing(
            CandidateSession(room.recording(job.front), limits, room.arenas, room.binaries, own_time, job.grid)
        ) as candidate,
        closing(LauncherSession(room.zygote, limits, room.arenas, room.binaries, own_time)) as launcher,
        room.attended(candidate.child, launcher.child, nbytes=limits.device_bytes),
    ):
        place.users[:] = (candidate.child, launcher.child)
        checked = job.checked and room.card.node is None  # there are checked builds for the CPU only
        examiner = Examiner(launcher, job.source, job.level, job.seed) if checked else None
        checker = Checker(
            room.truths,
            operator,
            candidate,
            launcher,
            seed=job.seed,
            time=own_time,
            examiner=examiner,
            collector=collector,
        )
        turns = Turns(room.gate, checker.excused, (candidate, launcher))
        repeater = Repeater(
            checker, candidate, launcher, level=job.level, seed=job.seed, runs=job.repeats, at_once=job.at_once
        )
        evaluating = _Evaluating(job, room, operator, candidate, launcher, checker, turns, clock, repeater, extent)
        try:
            evaluation = evaluating.run()
            place.whole = True
        except CandidateFailure as failure:
            if isinstance(failure, KilledFailure) and not last:
                raise
            with standing(), turns.shared():
                checker.explain(failure)
            evaluation = evaluating.failed(failure)
            if failure.where is not None:
                collector.failed(failure.where, failure.outcome)
    clock.compile = checker.compile_seconds + candidate.build_seconds + launcher.build_seconds
    notes = (*evaluation.notes, *(examiner.notes if examiner is not None else ()))
    return evaluation.model_copy(update={"notes": notes}), evaluating


@dataclass
class _Evaluating:
    """The parts of one evaluation, so that each stage is one method."""

    job: Job
    room: Room
    operator: LoadedOperator
    candidate: CandidateSession
    launcher: LauncherSession
    checker: Checker
    turns: Turns
    clock: _Clock
    repeater: Repeater
    extent: Extent
    budget: Budget = field(init=False)
    sampled: list[Region] = field(default_factory=list)
    """Once all cases were right."""
    chosen: list[Case] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    """What it takes for granted beyond the declaration."""
    compacted: str = ""
    """How fewer configurations serve the workloads than there are winners, in words."""
    disturbance: float = 0.0
    """Share of the processor that others used when the measurement began."""

    def __post_init__(self) -> None:
        self.budget = Budget(self.job)

    def run(self) -> Evaluation:
        begin = time.monotonic()
        try:
            with self.turns.shared():
                tunables = self.load()
                self.check(tunables)
                if self.job.max_workspace is not None:
                    facts.refuse_workspace(self.checker, self.operator, self.job.max_workspace)
            self.walk()
        except CandidateFailure as failure:
            with standing(), self.turns.shared():
                self.repeater.again(failure)
            raise
        finally:
            self.clock.check = time.monotonic() - begin
        timings: tuple[Timing, ...] = ()
        dispatch = Dispatch(())
        if self.job.bench:
            begin = time.monotonic()
            try:
                timings, dispatch = self.bench(tunables)
            finally:
                self.clock.bench = time.monotonic() - begin
        with self.turns.shared():
            passed = self.facts(dispatch, tunables)
        return passed.model_copy(
            update={
                "stage": Stage.BENCH if timings else Stage.CHECK,
                "cases": len(self.sampled),
                "verified": (*self.sampled, *self.extent.regions),
                "timings": timings,
                "choices": dispatch.described(tunables),
                "tried": dispatch.timed(tunables),
                "notes": tuple(self.notes()),
            }
        )

    def facts(self, dispatch: Dispatch, tunables: Sequence[Tunable]) -> Evaluation:
        """A pass with what was asked for beside it."""
        picks = {case.workload.label: vector for case, vector in dispatch.picks if case.workload is not None}
        told = facts.Facts(self.job, self.room, self.operator, self.checker, self.launcher, self.fronted)
        return told.told(picks, tunables)

    def failed(self, failure: CandidateFailure) -> Evaluation:
        """With what was found before it failed, where the cases of the check were right."""
        update = {"cases": len(self.sampled), "notes": tuple(self.notes())} if self.sampled else {}
        return failure.evaluation().model_copy(update=update)

    def walk(self) -> None:
        """Sizes in a row, in processes of their own. Raises CandidateFailure for the first that is wrong."""
        with self.checker.excused():  # each size has a limit of its own
            wrong = self.extent.walk(self.budget)
        if wrong is not None:
            case, failure = wrong
            failure.suspect = None  # its plan was another launcher's
            raise failure.at(case.where())

    def load(self) -> tuple[Tunable, ...]:
        request = load_request(self.job, self.operator)
        return self.candidate.load(request, None, self.checker.remaining(Stage.LOAD)).tunables

    def apart(self) -> AbstractContextManager[Checker]:
        """As `fronted`, by the front end that lowers its kernels here."""
        return self.fronted(self.job.front)

    @contextlib.contextmanager
    def fronted(self, front: Chip | None) -> Iterator[Checker]:
        """A checker with processes and arenas of its own, which may end or be larger than the machine's memory."""
        room, grid = self.room, self.job.grid
        limits = allowance.limits(room.sizes(self.operator), room.threads, on_card=False)
        own, own_time = ArenaPool(max_idle_bytes=0), OwnTime(aside.SECONDS)
        with (
            self.checker.excused(),
            closing(CandidateSession(room.recording(front), limits, own, room.binaries, own_time, grid)) as candidate,
            closing(LauncherSession(room.zygote, limits, own, room.binaries, own_time)) as launcher,
            self.extent.place.beside(candidate.child, launcher.child),
        ):
            candidate.load(load_request(self.job, self.operator), None, aside.SECONDS)
            yield Checker(room.truths, self.operator, candidate, launcher, seed=self.job.seed, time=own_time)

    def check(self, tunables: Sequence[Tunable]) -> None:
        """Every case of the level; small cases first, so that a broken candidate costs little."""
        self.budget = budget = Budget(self.job)
        blocks = named_blocks(self.job.source, tunables)
        agenda = Agenda(self.operator, self.job, blocks, self.checker.blocks, budget)
        self.chosen = agenda.tried  # grows while the cases are checked
        closer = examined(agenda.planned, self.job.level)
        self.checker.cases(agenda.first(), closer)
        self.beside(budget)
        self.checker.cases(agenda.more(), closer)
        calls = sequence(self.operator, self.job.level)
        for case, _ in itertools.groupby([*calls, *agenda.workloads[-1:]]):
            self.checker.again(case)
        for case in [*self.chosen[:2], *agenda.workloads[-1:]]:
            self.checker.properties(case)
        if not self.job.bench:
            refuse_wrong(self.checker, tunables, self.chosen, self.job.level, budget)
        agenda.tell(self.checker.collector)
        self.repeater.check(
            self.chosen, budget.left * (REPEATS_SHARE if self.extent.walks else 1) if budget.given else math.inf
        )
        self.sampled = [
            Region(
                dims={name: (size, size) for name, size in case.dims.items()},
                dtypes=case.dtypes,
                layouts=case.layouts,
                scalars=case.scalars,
                status=RegionStatus.SAMPLED,
            )
            for case in self.chosen
        ]

    def beside(self, budget: Budget) -> None:
        """What must not cost the processes of the main check their lives: at the quick level, only far rows, and only
        where they have refused another candidate."""
        quick = self.job.level is Level.QUICK
        if quick and not any(Layout.FAR in place.layouts.values() for place in self.job.revealing):
            return
        why = f"the time ({budget.seconds:g} s) was up" if budget.over else ""
        why = why or ("memory of a card cannot be left unbacked" if self.room.card.node is not None else "")
        if not why:
            self.assumed = narrow_offsets(self.operator, self.apart, self.checker.collector)
            self.assumed += [] if quick else assumptions(self.operator, self.apart)
        elif far(self.operator):
            self.checker.collector.leave_out(f"offsets beyond 2**31 elements were not tried: {why}")

    def bench(self, tunables: Sequence[Tunable]) -> tuple[tuple[Timing, ...], Dispatch]:
        with contextlib.ExitStack() as stack:
            outer = None
            if self.room.card.node is None:  # a card's memory is not the judge's to look at
                limits = allowance.ours(allowance.LIFETIME_SECONDS, self.room.threads)
                clean = LauncherSession(self.room.zygote, limits, self.room.arenas)
                outer = OuterClock(self.checker, self.launcher, stack.enter_context(closing(clean)))
            return self.measured(tunables, outer)

    def measured(self, tunables: Sequence[Tunable], outer: OuterClock | None) -> tuple[tuple[Timing, ...], Dispatch]:
        with self.checker.excused():  # the first one measures it, once all others are done
            bandwidth = self.room.bandwidth
        bench = Bench(
            self.checker,
            self.launcher,
            outer,
            flush_bytes=self.room.flush_bytes,
            bandwidth=bandwidth,
            seed=self.job.seed,
        )
        points = workload_cases(self.operator)
        share = self.job.bench_seconds / len(points)
        rivals = self.room.rivals(self.job.operator)
        seeds = [self.checker.content_seed(content) for content in range(POOL)]
        found = [choose(self.checker, bench, self.turns, c, n, tunables, seconds=share) for n, c in enumerate(points)]
        found, self.compacted = served_by_fewer(self.checker, self.turns, points, found)
        dispatch = Dispatch(
            tuple((case, one.choices) for case, one in zip(points, found, strict=True)),
            tuple((case, one.tried) for case, one in zip(points, found, strict=True)),
        )
        with self.turns.shared():
            host_lane = self.elsewhere(dispatch, tunables)
            with self.checker.excused():  # torch.compile takes its time, and nobody is kept from the device for it
                for number, name in itertools.product(range(len(points)), self.baselines()):
                    rivals.build(name, number, seeds)
        timings = []
        with self.turns.exclusive():
            self.disturbance = noise.busy_share()
            host = bench.host_us(self.candidate, bench.lane(0, host_lane, ()))
            for number, one in enumerate(found):
                with self.checker.excused():  # another job's inputs may have taken the place of ours
                    names = [name for name in self.baselines() if rivals.build(name, number, seeds)]
                lane = bench.lane(number, one.proven, names)
                here = bench.host_us(self.candidate, lane) if host_alone(one.proven) else host
                timings.append(bench.measure(lane, rivals, host_us=here, seconds=share))
                bench.refuse_hidden_work(self.candidate, lane, timings[-1])
                self.launcher.forget(one.proven.plan_id)
        with self.turns.shared():
            self.checker.again(host_lane.case)  # after the many calls that were only timed
        return tuple(timings), dispatch

    def elsewhere(self, dispatch: Dispatch, tunables: Sequence[Tunable]) -> Proven:
        """Winning configurations serve shapes that were not tuned too, so they are checked there. Returns the smallest
        case, prepared, for the measurement of the host function's own time."""
        small = [c for c in self.chosen if c.workload is None][:CASES_ELSEWHERE] or self.chosen[:1]
        for vector in dispatch.vectors():
            for case in small:
                try:
                    self.checker.case(case, vector)
                except CandidateFailure as failure:
                    failure.message = f"with {_words(vector, tunables)}: {failure.message}"
                    raise
        smallest = min(small, key=lambda c: self.checker.known(c, 0).input_bytes)
        return self.checker.case(smallest, keep=True)

    def baselines(self) -> list[str]:
        return [*self.job.baselines, *(["baseline"] if self.operator.baseline is not None else [])]

    def notes(self) -> list[str]:
        """Facts beside the verdict."""
        facts = [] if self.job.level is not Level.QUICK else ["checked at quick level: a sample of the input space"]
        facts += self.assumed
        rivals = self.room.rivals(self.job.operator) if self.job.bench else None
        facts += [self.operator.policy.describe()] if self.operator.policy is not None else ()
        facts += [bits] if self.repeater.repeats is not None and (bits := self.repeater.repeats.bits) else []
        facts += [self.compacted] if self.compacted else []
        facts += self.room.notes()
        facts += noise.note(self.disturbance) if self.room.target.torch_device == "cpu" else ()
        if rivals is not None:
            facts += [f"no {name} baseline: {why}" for name, why in rivals.unavailable.items()]
            facts += [round_trip(name, why) for name, why in rivals.round_trips.items()]
        return facts


def round_trip(baseline: str, lacks: str) -> str:
    """What a report must say of a baseline that the device cannot run."""
    return (
        f"the {baseline} baseline is a round trip through the CPU (copies there and back included), because {lacks}; "
        "the truth is the reference on the judge's CPU, as always"
    )


def _words(vector: Vector, tunables: Sequence[Tunable]) -> str:
    """Configurations as a person reads them."""
    by_name = {t.kernel: t for t in tunables}
    return ", ".join(f"{c.kernel} at {by_name[c.kernel].configs[c.config]}" for c in vector)
