"""How far a verdict reaches: the dims that are walked, and where a candidate that failed is wrong.

In processes of its own, beside those of the check. Invariant: a walk is part of the check, which it may fail, and takes
of its time; what follows a failure only says more about it. `evaluate` calls `walk` before it measures, and `follow`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing

from kernelsmith.errors import UsageError
from kernelsmith.evaluate.check.agenda import Budget
from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.evaluate.check.examine import Examiner
from kernelsmith.evaluate.clock.gate import Turns
from kernelsmith.evaluate.region.line import Line
from kernelsmith.evaluate.region.locate import locate
from kernelsmith.evaluate.region.probe import Pair, Prober
from kernelsmith.evaluate.region.runs import Runs
from kernelsmith.evaluate.region.sweep import Walk, walk
from kernelsmith.evaluate.room.admission import Place
from kernelsmith.evaluate.room.room import MODEL_SEED, Room
from kernelsmith.evaluate.sessions import allowance, transport
from kernelsmith.evaluate.sessions.failure import CandidateFailure, standing
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.truth.explore import walks as level_sweeps
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evidence import Refuted
from kernelsmith.execute import Tell, quiet
from kernelsmith.model import Evaluation, Job
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Level, Outcome
from kernelsmith.sandbox.wire.arguments import Arguments
from kernelsmith.sandbox.wire.messages import Load
from kernelsmith.space import Region, Sweep, Where
from kernelsmith.triton_cpu.run.cores import crowding

SEARCH_SECONDS = {Level.QUICK: 2.0, Level.FULL: 20.0, Level.EXHAUSTIVE: 20.0}
"""For the search of the failing region, by level, where a core is free for it; longer where several processes want each
core, but not without end."""
MOST_CROWDED = 8.0
FIRST_SECONDS = {Level.QUICK: 3.0, Level.FULL: 10.0, Level.EXHAUSTIVE: 10.0}
"""For its first run, which shows what is usual."""
WALK_SECONDS = 20.0
"""For all the sizes that a full check walks by itself, where a core is free for it."""
CERTAIN = 2
"""More runs that must fail as the first did, before the search and at the smallest input after it."""
LOCATED = frozenset(
    {
        Outcome.WRONG_VALUES,
        Outcome.WRONG_SHAPE,
        Outcome.WRONG_DTYPE,
        Outcome.MUTATED_INPUT,
        Outcome.OUT_OF_BOUNDS,
        Outcome.UNINITIALIZED_READ,
        Outcome.RACE,
        Outcome.INT_OVERFLOW,
        Outcome.RUNTIME_ERROR,
        Outcome.CRASHED,
        Outcome.TIMEOUT,
        Outcome.MEMORY,
    }
)
"""Failures that may depend on the input."""
OF_THEIR_OWN = frozenset({Outcome.COMPILE_ERROR, Outcome.RUNTIME_ERROR, Outcome.TIMEOUT, Outcome.MEMORY})
"""Outcomes that one fault has at all sizes; the others one fault may have by turns, as a stray store crashes or not."""


class Extent:
    """How far the verdict on one candidate reaches. Used by one thread; close it."""

    def __init__(
        self,
        job: Job,
        room: Room,
        operator: LoadedOperator,
        place: Place,
        collector: Collector,
        tell: Tell,
        *,
        walks: bool = True,
    ) -> None:
        """`walks`: whether dims are walked, as the job asks or its level does."""
        self._job = job
        self._room = room
        self._operator = operator
        self.place = place
        self.collector = collector
        self._tell = tell
        names = {sweep.name for sweep in job.sweeps}
        levels = (sweep for sweep in level_sweeps(operator, job.level) if sweep.name not in names)
        self._asked = job.sweeps if walks else ()
        self._own = tuple(levels) if walks else ()
        self._walks: list[Walk] = []
        self._prober: Prober | None = None
        self.regions: tuple[Region, ...] = ()
        """Where every size was run and right."""

    @property
    def walks(self) -> bool:
        """Whether some dim is to be walked yet."""
        return bool(self._asked or self._own)

    def close(self) -> None:
        """End its processes."""
        if self._prober is not None:
            self._prober.close()

    def walk(self, budget: Budget, *, own: bool = True) -> tuple[Case, CandidateFailure] | None:
        """Walk the sweeps that were asked for and, with `own`, those of the level, in the time of the check. Returns
        the first failure that one of them met.

        Raises InfrastructureError, UsageError for a sweep that is not possible, OperatorError for what comes up in one
        that was asked for, CandidateFailure where the processes cannot be made to stand still.
        """
        first: tuple[Case, CandidateFailure] | None = None
        asked, levels = self._asked, self._own if own else ()
        self._asked, self._own = (), ()
        try:
            for number, sweep in enumerate(asked):
                patient = not budget.given and self._job.level is not Level.EXHAUSTIVE  # it takes what it takes
                share = budget.left / (len(asked) - number + len(levels))
                done = self._walked(sweep, None if patient else share, self._tell)
                first = first or (done.worst if done is not None else None)
            end = time.monotonic() + self._spare(budget)
            tell = self._tell if self._job.level is Level.EXHAUSTIVE else quiet  # seconds, of which nobody asked
            for number, sweep in enumerate(levels if first is None else ()):
                try:
                    done = self._walked(sweep, max(0.0, end - time.monotonic()) / (len(levels) - number), tell)
                except UsageError as error:  # nobody asked for it
                    self.collector.leave_out(f"sweep {sweep} was not run: {error.message}")
                    continue
                if done is not None and (first := done.worst) is not None:
                    break
        finally:
            self._tell("")
        if first is None:
            self.close()  # what follows a pass is measured
        return first

    def follow(self, evaluation: Evaluation, cases: Sequence[Case], budget: Budget) -> Evaluation:
        """A failure with where the candidate is wrong, as far as that is found; `cases` are those that were tried."""
        if evaluation.where is not None:
            with contextlib.suppress(CandidateFailure):  # it has failed already
                self.walk(budget, own=False)
        evaluation = evaluation.model_copy(update={"verified": (*evaluation.verified, *self.regions)})
        case = _failing(evaluation.where, [*cases, *(done.worst[0] for done in self._walks if done.worst)])
        if case is None or not self._job.located or evaluation.outcome not in LOCATED:
            return evaluation
        prober = self._opened(hangs=evaluation.outcome is Outcome.TIMEOUT)
        with standing(), self._turn():
            again = prober.reproduce(case)
            seconds = SEARCH_SECONDS[self._job.level] * min(crowding(), MOST_CROWDED)
            most = min(seconds, budget.left) if budget.given else seconds
            if again is not None and (refuted := self._located(case, again.outcome, prober, most)):
                self.collector.refuted(refuted)
                evaluation = evaluation.model_copy(
                    update={
                        "message": f"{evaluation.message}\n{message(refuted)}",
                        "verified": (*evaluation.verified, *refuted.regions),
                    }
                )
        return evaluation

    def _spare(self, budget: Budget) -> float:
        """Seconds for what the level walks by itself."""
        if self._job.level is Level.EXHAUSTIVE:  # which walks all dims
            return budget.left
        return min(budget.left, WALK_SECONDS * min(crowding(), MOST_CROWDED))

    def _walked(self, sweep: Sweep, seconds: float | None, tell: Tell) -> Walk | None:
        """One walk, noted down; None where there is no time for it."""
        if seconds is not None and seconds <= 0:
            self.collector.leave_out(f"sweep {sweep} was not run: the time of the check was up")
            return None
        done = walk(
            self._operator,
            sweep,
            self._opened().verdict,
            seed=self._job.seed,
            turn=self._turn,
            tell=tell,
            seconds=seconds,
        )
        self._walks.append(done)
        self.collector.swept(done.swept)
        for sentence in done.left_out:
            self.collector.leave_out(sentence)
        self.regions += done.regions(self._operator.dtype_sets)
        return done

    def _turn(self) -> AbstractContextManager[None]:
        processes = () if self._prober is None else (self._prober,)
        return Turns(self._room.gate, contextlib.nullcontext, processes).shared()

    def _located(self, case: Case, outcome: Outcome, prober: Prober, seconds: float) -> Refuted | None:
        def alike(one: Case) -> Outcome | None:
            """How a case fails, if it is by the same fault as far as anyone can tell."""
            found = prober.outcome(one)
            return found if found is outcome or not {found, outcome} & OF_THEIR_OWN else None

        def certain(one: Case) -> bool:
            """Whether a case fails every time: what fails now and then has no edges that a run could find."""
            return all(alike(one) is not None for _ in range(CERTAIN))

        if not certain(case):
            return None
        runs = Runs(alike, seconds=seconds)
        operator = self._operator
        walks = [done for done in self._walks if done.worst]
        known = {done.sweep.name: done.along(Line(operator, done.base, done.sweep.name)) for done in walks}
        refuted = locate(operator, case, runs, known)
        small = (one for one, wrong in runs.known() if wrong and refuted and one.where() == refuted.smallest)
        return refuted if all(map(certain, small)) else None

    def _opened(self, *, hangs: bool = False) -> Prober:
        """The processes that run its cases; `hangs`: the candidate is known to."""
        if self._prober is None:
            self._prober = self._made(hangs)
        return self._prober

    def _made(self, hangs: bool) -> Prober:
        job, room = self._job, self._room
        limits = allowance.limits(room.sizes(self._operator), room.threads, on_card=room.card.node is not None)

        @contextlib.contextmanager
        def start(own_time: OwnTime) -> Iterator[Pair]:
            with (
                closing(
                    CandidateSession(room.recording(job.front), limits, room.arenas, room.binaries, own_time, job.grid)
                ) as candidate,
                closing(LauncherSession(room.zygote, limits, room.arenas, room.binaries, own_time)) as launcher,
                room.attended(candidate.child, launcher.child, nbytes=limits.device_bytes),
                self.place.beside(candidate.child, launcher.child),
            ):
                yield Pair(candidate, launcher)

        def examiner(launcher: LauncherSession) -> Examiner:
            return Examiner(launcher, job.source, job.level, job.seed)

        return Prober(
            start,
            self._operator,
            load_request(job, self._operator),
            seed=job.seed,
            first_seconds=FIRST_SECONDS[job.level],
            hangs=hangs,
            examiner=examiner if job.checked and room.card.node is None else None,
            margins=self.collector.margins,
        )


def message(refuted: Refuted) -> str:
    """Where it fails, in two sentences that a person or a model acts on."""
    words = f"{refuted.words[:1].upper()}{refuted.words[1:]}"
    return f"{words}. Smallest failing input found: {refuted.smallest.describe()}."


def load_request(job: Job, operator: LoadedOperator) -> Load:
    """What a candidate's process is to load."""
    problem = operator.problem
    init = Arguments()
    if problem is not None:
        init = Arguments(positional=tuple(transport.scalar(v) for v in problem.init_inputs()))
    return Load(source=job.source, entry=operator.info.name, is_class=problem is not None, init=init, seed=MODEL_SEED)


def _failing(where: Where | None, cases: Sequence[Case]) -> Case | None:
    """The case that a verdict names."""
    if where is None:
        return None
    return next((case for case in cases if case.where(call=where.call, replay=where.replay) == where), None)
