"""How far a verdict reaches: the sweeps that were asked for, and where a candidate that failed is wrong.

Runs behind the check, in processes of its own. Invariant: a verdict that has been reached stands; only a sweep, which
is part of the check, may turn a pass into a failure. `evaluate` calls `extended`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass

from kernelsmith.errors import KernelsmithError
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
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.truth.explore import walks as walks_of
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evidence import Refuted
from kernelsmith.execute import Tell
from kernelsmith.model import CHECK_SECONDS, Evaluation, Job
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Level, Outcome
from kernelsmith.sandbox.wire.arguments import Arguments
from kernelsmith.sandbox.wire.messages import Load
from kernelsmith.space import Sweep, Where
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


@dataclass(frozen=True)
class Checked:
    """What was checked before, and how one more look at it is paid for."""

    job: Job
    room: Room
    operator: LoadedOperator
    place: Place
    collector: Collector
    cases: Sequence[Case]
    """Those of the level."""


def extended(evaluation: Evaluation, checked: Checked, tell: Tell) -> Evaluation:
    """The verdict after the sweeps, with where it fails, if it does.

    Raises InfrastructureError and OperatorError for what comes up in a sweep.
    """
    case = _failing(evaluation.where, checked.cases)
    reached = evaluation.outcome is Outcome.PASSED or evaluation.where is not None
    planned = _planned(checked, passed=evaluation.outcome is Outcome.PASSED)
    walked = bool(planned) and reached
    if not walked and not _worth(case, evaluation, checked.job):
        return evaluation
    with closing(_prober(checked, evaluation.outcome)) as prober:
        turn = Turns(checked.room.gate, contextlib.nullcontext, (prober,)).shared
        walks: list[Walk] = []
        if walked:
            evaluation, found = _swept(evaluation, checked, planned, _Walking(prober, walks, turn, tell))
            case = case or found
        if case is None or not _worth(case, evaluation, checked.job):
            return evaluation
        # the verdict stands, whatever happens while somebody looks for where it holds
        with contextlib.suppress(CandidateFailure, KernelsmithError), turn():
            again = prober.reproduce(case)
            if again is not None and (refuted := _located(checked, case, again.outcome, prober, walks)):
                checked.collector.refuted(refuted)
                evaluation = evaluation.model_copy(
                    update={
                        "message": f"{evaluation.message}\n{message(refuted)}",
                        "verified": (*evaluation.verified, *refuted.regions),
                    }
                )
    return evaluation


def _worth(case: Case | None, evaluation: Evaluation, job: Job) -> bool:
    """Whether where it fails is looked for."""
    return job.located and case is not None and evaluation.outcome in LOCATED


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


def _prober(checked: Checked, outcome: Outcome) -> Prober:
    job, room = checked.job, checked.room
    limits = allowance.limits(room.sizes(checked.operator), room.threads, on_card=room.card.node is not None)

    @contextlib.contextmanager
    def start() -> Iterator[Pair]:
        with (
            closing(CandidateSession(room.zygote, limits, room.arenas, room.binaries)) as candidate,
            closing(LauncherSession(room.zygote, limits, room.arenas, room.binaries)) as launcher,
            room.attended(candidate.child, launcher.child, nbytes=limits.device_bytes),
        ):
            checked.place.users[:] = (candidate.child, launcher.child)
            yield Pair(candidate, launcher)

    def examiner(launcher: LauncherSession) -> Examiner:
        return Examiner(launcher, job.source, job.level, job.seed)

    return Prober(
        start,
        checked.operator,
        load_request(job, checked.operator),
        seed=job.seed,
        first_seconds=FIRST_SECONDS[job.level],
        hangs=outcome is Outcome.TIMEOUT,
        examiner=examiner if job.checked and room.card.node is None else None,
    )


@dataclass(frozen=True)
class _Walking:
    """With what a sweep is walked, and where it is noted down."""

    prober: Prober
    walks: list[Walk]
    turn: Callable[[], AbstractContextManager[None]]
    tell: Tell


def _planned(checked: Checked, *, passed: bool) -> list[tuple[Sweep, float | None]]:
    """The sweeps that were asked for, then those of the level, which follow a pass only; each with its wall seconds
    (None: as many as its passes are worth)."""
    job = checked.job
    asked = {sweep.name for sweep in job.sweeps}
    own = [sweep for sweep in walks_of(checked.operator, job.level) if passed and sweep.name not in asked]
    if job.level is Level.EXHAUSTIVE:  # which walks all dims in the time of one check
        every = [*job.sweeps, *own]
        return [(sweep, (job.check_seconds or CHECK_SECONDS[job.level]) / len(every)) for sweep in every]
    seconds = WALK_SECONDS * min(crowding(), MOST_CROWDED)
    return [*((sweep, job.check_seconds) for sweep in job.sweeps), *((sweep, seconds / len(own)) for sweep in own)]


def _swept(
    evaluation: Evaluation, checked: Checked, planned: Sequence[tuple[Sweep, float | None]], walking: _Walking
) -> tuple[Evaluation, Case | None]:
    """The verdict after the sweeps and the first case at which one of them failed."""
    operator, collector = checked.operator, checked.collector
    verified, failing, seed = list(evaluation.verified), None, checked.job.seed
    try:
        for sweep, seconds in planned:
            done = walk(
                operator, sweep, walking.prober.run, seed=seed, turn=walking.turn, tell=walking.tell, seconds=seconds
            )
            walking.walks.append(done)
            collector.swept(done.swept)
            for sentence in done.left_out:
                collector.leave_out(sentence)
            verified += done.regions(operator.dtype_sets)
            if done.worst is not None and evaluation.outcome is Outcome.PASSED:
                failing, failure = done.worst
                evaluation = failure.at(failing.where()).evaluation()
    except CandidateFailure as failure:  # its processes cannot be made to stand still
        return failure.evaluation(), None
    finally:
        walking.tell("")
    return evaluation.model_copy(update={"verified": tuple(verified)}), failing


def _located(checked: Checked, case: Case, outcome: Outcome, prober: Prober, walks: Sequence[Walk]) -> Refuted | None:
    def alike(one: Case) -> Outcome | None:
        """How a case fails, if it is by the same fault as far as anyone can tell."""
        found = prober.outcome(one)
        return found if found is outcome or not {found, outcome} & OF_THEIR_OWN else None

    def certain(one: Case) -> bool:
        """Whether a case fails every time: what fails now and then has no edges that a run could find."""
        return all(alike(one) is not None for _ in range(CERTAIN))

    if not certain(case):
        return None
    seconds = SEARCH_SECONDS[checked.job.level] * min(crowding(), MOST_CROWDED)
    runs = Runs(alike, seconds=seconds)
    operator = checked.operator
    known = {done.sweep.name: done.along(Line(operator, done.base, done.sweep.name)) for done in walks if done.worst}
    refuted = locate(operator, case, runs, known)
    small = (one for one, wrong in runs.known() if wrong and refuted and one.where() == refuted.smallest)
    return refuted if all(map(certain, small)) else None
