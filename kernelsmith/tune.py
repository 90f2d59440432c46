"""The loop: brief -> proposer -> store -> parse -> executor -> store, until the budget stops it; then the winner's
re-check.

Invariant: only the store has state. Resuming is starting the same loop with the same run: calls that were in flight are
lost (and charged), replies that arrived are judged, trials without a verdict are judged again. A candidate's failure is
a verdict; an infrastructure failure is retried and never charged to a candidate. Called by the `tune` command and by
batch.py.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from kernelsmith.asking import OFFLINE, Sources, chosen, prepared
from kernelsmith.errors import KernelsmithError, ProviderError, StoreError
from kernelsmith.execute import DeviceLostError, Executor
from kernelsmith.flights import Flights, patiently
from kernelsmith.jobs import job_for
from kernelsmith.keys import redact
from kernelsmith.ledger import Ledger
from kernelsmith.lessons.book import Lessons
from kernelsmith.lessons.teach import teach
from kernelsmith.library import categories
from kernelsmith.model import DeviceMark, Evaluation, Seed
from kernelsmith.outcome import Level, Outcome
from kernelsmith.proposal import Brief, Candidate, Move, Prompt, Reply, StopReason, TargetFacts
from kernelsmith.propose import Proposer
from kernelsmith.propose.reply import NoCode, parse
from kernelsmith.records import (
    DeviceGivenUp,
    JudgingStarted,
    JudgingWaits,
    Notice,
    TrialJudged,
    TuneRecord,
    TuneResult,
)
from kernelsmith.rotation import Rotation
from kernelsmith.runs import CallStatus, Run, RunSpec, RunStatus, TrialRecord
from kernelsmith.search.moves import ALL
from kernelsmith.store import Store
from kernelsmith.summary import (
    called_record,
    check_command,
    ended_record,
    judged_record,
    result_record,
    started_record,
)

T = TypeVar("T")

START = "start"
"""Origin of the user's own kernel."""


MOST_RECHECKS = 8
POLL = 0.2
"""Seconds between looks at the interrupt flag."""
GRACE = 15.0
"""Seconds that an interrupted run waits for replies which are paid for."""


@dataclass(frozen=True)
class Tools:
    """What a run works with."""

    store: Store
    executor: Executor
    proposers: tuple[Proposer, ...]
    target: TargetFacts
    render: Callable[[Brief], Prompt]
    emit: Callable[[TuneRecord], None]
    interrupted: threading.Event = field(default_factory=threading.Event)
    """Set by the first Ctrl-C."""
    ports: tuple[Seed, ...] = ()
    """Kernels of earlier runs, for other targets or operators."""
    lessons: Lessons | None = None
    """What earlier runs taught, and where this one writes what it learns."""
    moves: tuple[frozenset[Move], ...] = ()
    """What each proposer may do, in their order; empty: everything."""
    targets: Path | None = None
    """Folder of the `--targets` flag, for commands that are shown."""


def tune(run: Run, tools: Tools, *, resumed: bool = False) -> TuneResult:
    """Tune a run that this process holds the lock of. Errors are raised after the run's state is saved."""
    loop = _Loop(run, tools)
    tools.emit(started_record(run, tools.store, resumed=resumed))
    try:
        return loop.run(resumed)
    except BaseException as error:
        loop.abandon(error)
        raise


@dataclass(frozen=True)
class _Asked:
    number: int
    proposer: int


@dataclass(frozen=True)
class _Judging:
    number: int
    level: Level
    again: bool = False


@dataclass(frozen=True)
class _Seeding:
    pass


class _Loop:
    def __init__(self, run: Run, tools: Tools) -> None:
        self.tools = tools
        self.ledger = Ledger(tools.store, run)
        self.folder = tools.store.folder_of(run)
        known = {call.model for call in self.ledger.calls.values() if call.status is CallStatus.ANSWERED}
        self.rotation = Rotation(tools.proposers, known)
        self.moves = tools.moves or (ALL,) * len(tools.proposers)
        self.flights: Flights[_Asked | _Judging | _Seeding, Any] = Flights()
        self.unjudged: deque[int] = deque()
        self.seeds: tuple[Seed, ...] = ()
        self.category = categories(run.spec.info)[0]
        self.told = tools.lessons.offered(tools.target.family, self.category) if tools.lessons else ()
        self.grace_ends: float | None = None

    @property
    def spec(self) -> RunSpec:
        return self.ledger.run.spec

    # ------------------------------------------------------------ the idea

    def run(self, resumed: bool) -> TuneResult:
        self.recover()
        if not resumed or self.stop() is None:
            self.flights.start(_Seeding(), lambda: patiently(lambda: self.tools.executor.seeds(self.spec.operator)))
        while True:
            stop = self.search()
            winner = None if stop is StopReason.INTERRUPTED else self.recheck()
            if self.tools.interrupted.is_set():
                return self.finish(StopReason.INTERRUPTED, None)
            # a goal that the longer measurement takes back is searched for again
            if stop is not StopReason.GOAL or self.stop() is StopReason.GOAL:
                return self.finish(stop, winner)

    def search(self) -> StopReason:
        """Ask and judge until a limit is reached and nothing is in flight; an outage is waited out."""
        while True:
            stop = self.stop()
            while len(self.flights) < self.spec.width and self.begin(stop):
                stop = self.stop()
            if stop is StopReason.INTERRUPTED and not self.worth_waiting():
                return stop
            if not self.flights and (stop is not None or not self.rotation.resting):
                unheard = stop is StopReason.TIME and self.rotation.resting and not self.ledger.trials
                return StopReason.FAILED if unheard else stop or self.rotation.reason
            self.land()

    def recheck(self) -> TrialRecord | None:
        """Full check under a fresh seed and a longer measurement, until the fastest has had both, or the time is over
        and another one has."""
        for _ in range(MOST_RECHECKS):
            best = self.ledger.best
            if best is None or best.rechecked or self.tools.interrupted.is_set():
                return best
            if self.ledger.time_is_over and any(t.rechecked for t in self.ledger.ranked):
                break  # one that was proven in time beats one that may be faster
            self.judge(best.number, Level.FULL)
            while self.flights and not self.tools.interrupted.is_set():
                self.land()
        return next((t for t in self.ledger.ranked if t.rechecked), None)

    def stop(self) -> StopReason | None:
        return StopReason.INTERRUPTED if self.tools.interrupted.is_set() else self.ledger.stop

    # ------------------------------------------------------------ starting

    def recover(self) -> None:
        """Settle what an earlier session left: nothing that arrived is lost, nothing is asked for twice."""
        for call in list(self.ledger.calls.values()):
            if call.status is CallStatus.INTENT:
                message = "in flight when the run was killed; charged at its reservation"
                self.ledger.unanswered(call.number, CallStatus.LOST, message, charged=True)
                self.tools.emit(ended_record(self.ledger.calls[call.number], "lost"))
            elif call.status is CallStatus.ANSWERED and call.number not in self.ledger.trials:
                self.accept(call.number)
        if self.spec.start and not any(t.candidate.origin == START for t in self.ledger.trials.values()):
            candidate = Candidate(source=self.spec.start, origin=START)
            self.ledger.add(TrialRecord(number=self.ledger.next_number, candidate=candidate))
        for trial in self.ledger.trials.values():
            if trial.verdict is None and trial.number not in self.unjudged:
                self.unjudged.append(trial.number)

    def begin(self, stop: StopReason | None) -> bool:
        """Start one flight or settle one repeat; False when there is nothing to begin."""
        number = self.next_unjudged() if self.may_judge(stop) else None
        if number is not None:
            self.unjudged.remove(number)
            self.judge(number, Level.QUICK)
            return True
        if stop is not None or _Seeding() in self.flights.keys or self.start_is_unjudged():
            return False
        leader = self.lucky()
        if leader is not None:
            flying = any(isinstance(key, _Judging) and key.number == leader for key in self.flights.keys)
            if not flying:
                self.judge(leader, Level.QUICK, again=True)
            return not flying
        order = chosen(self.ledger, self.tools.ports, self.tools.proposers, self.moves)
        proposer = self.rotation.next(order)
        if proposer is None:
            return False
        self.ask(proposer)
        return True

    def may_judge(self, stop: StopReason | None) -> bool:
        """Replies that came in time are judged; late ones only while there is nothing else to show for the run."""
        if stop is StopReason.TIME:
            return self.ledger.best is None and not self.ledger.time_is_over
        return stop not in (StopReason.INTERRUPTED, StopReason.GOAL)

    def start_is_unjudged(self) -> bool:
        """Nobody is asked before the user's own kernel can be shown with its times."""
        return any(t.candidate.origin == START and t.verdict is None for t in self.ledger.trials.values())

    def lucky(self) -> int | None:
        """The leader, while one measurement speaks for it: of many that were measured once the fastest owes some of it
        to luck, so it is measured again before a model is shown it."""
        best = self.ledger.best
        models = any(proposer.spec != OFFLINE for proposer in self.tools.proposers)
        return best.number if best is not None and models and self.ledger.measured_once(best) else None

    def next_unjudged(self) -> int | None:
        """The first trial to judge whose program is not being judged at this moment."""
        flying = {key.number for key in self.flights.keys if isinstance(key, _Judging)}
        programs = {self.ledger.program(n) for n in flying}
        return next((n for n in self.unjudged if self.ledger.program(n) not in programs), None)

    def ask(self, index: int) -> None:
        """Reserve, write the intent, call."""
        proposer = self.tools.proposers[index]
        sources = Sources(self.tools.target, self.seeds, self.tools.ports, self.told)
        ask = prepared(self.ledger, sources, self.tools.render, proposer, self.moves[index])
        if isinstance(ask, StopReason):
            self.rotation.idle[index] = ask
            return
        self.ledger.intend(ask.call, ask.prompt)
        self.tools.emit(called_record(ask.call))
        self.flights.start(_Asked(ask.call.number, index), lambda: proposer.propose(ask.request))

    def judge(self, number: int, level: Level, *, again: bool = False) -> None:
        """Send a trial to the executor; a program that has been judged takes its earlier verdict. `again`: its own may
        owe something to luck."""
        trial = self.ledger.trials[number]
        earlier = next((t for t in self.ledger.twins(number) if t.verdict is not None), None)
        if level is Level.QUICK and not again and earlier is not None and earlier.evaluation is not None:
            note = f"the same program as trial {earlier.number}"
            evaluation = earlier.evaluation.model_copy(update={"notes": (*earlier.evaluation.notes, note)})
            self.settle(_Judging(number, level), evaluation, repeats=earlier.repeats or earlier.number)
            return
        self.tools.emit(JudgingStarted(trial=number, origin=trial.candidate.origin, level=level, again=again))
        job = job_for(self.ledger, number, level, again=again)
        key = _Judging(number, level, again)

        def work() -> Evaluation:
            return self.tools.executor.evaluate(job, lambda why: self.flights.say(key, why))

        self.flights.start(key, lambda: patiently(work))

    # ------------------------------------------------------------ landing

    def land(self) -> None:
        landing = self.flights.land(POLL)
        for speaker, why in self.flights.heard():
            if isinstance(speaker, _Judging):
                self.tools.emit(JudgingWaits(trial=speaker.number, why=why))
        if landing is None:
            return
        key = landing.key
        if isinstance(key, _Asked):
            self.replied(key, landing.value, landing.error)
        elif landing.error is not None:
            if isinstance(landing.error, DeviceLostError):
                self.devices(landing.error.given_up, key.number if isinstance(key, _Judging) else None)
            raise landing.error
        elif isinstance(key, _Judging):
            self.settle(key, _landed(landing.value, Evaluation))
        else:
            self.seeds = _landed(landing.value, tuple)
        # an answer of "nothing" changes nothing for the others: waking them would ask in circles
        if not isinstance(key, _Asked) or landing.value is not None or landing.error is not None:
            self.rotation.wake()

    def replied(self, key: _Asked, reply: Reply | None, error: Exception | None) -> None:
        number = key.number
        if error is None:
            self.rotation.replied(key.proposer)
        if reply is not None:
            self.ledger.answered(number, reply)
            self.tools.emit(ended_record(self.ledger.calls[number], "answered"))
            excess = self.ledger.excess(number)
            if excess:
                said = self.rotation.failed(key.proposer, ProviderError(excess), self.ledger.seconds_left)
                self.tools.emit(Notice(message=said))
            self.accept(number)
        elif error is None:
            call = self.ledger.unanswered(number, CallStatus.NOTHING, "nothing more to try", charged=False)
            self.rotation.idle[key.proposer] = StopReason.EXHAUSTED
            self.tools.emit(ended_record(call, "nothing"))
        else:
            words = error.message if isinstance(error, KernelsmithError) else f"{type(error).__name__}: {error}"
            message = redact(words)
            billed = isinstance(error, ProviderError) and error.billed
            call = self.ledger.unanswered(number, CallStatus.FAILED, message, charged=billed)
            self.tools.emit(ended_record(call, "failed"))
            if not isinstance(error, ProviderError):
                raise error
            said = self.rotation.failed(key.proposer, error, self.ledger.seconds_left)
            self.tools.emit(Notice(message=said))

    def accept(self, number: int) -> None:
        """Turn a stored reply into a trial: with a kernel to be judged, or with the verdict that it holds none."""
        call = self.ledger.calls[number]
        base = self.ledger.trials.get(call.base) if call.base is not None else None
        parsed = parse(call.reply, self.spec.info.name, base.candidate.source or None if base is not None else None)
        if not isinstance(parsed, str):
            outcome = Outcome.NO_CODE if isinstance(parsed, NoCode) else Outcome.PATCH_FAILED
            self.tools.emit(self.judged(self.ledger.add_unparsed(number, outcome, parsed.reason)))
            return
        candidate = Candidate(source=parsed, origin=call.model, parents=call.parents)
        self.ledger.add(TrialRecord(number=number, candidate=candidate, repairs=call.repairs))
        self.unjudged.append(number)

    def devices(self, given_up: tuple[DeviceMark, ...], trial: int | None) -> None:
        """Tell of cards that are used no more."""
        for mark in given_up:
            self.tools.emit(DeviceGivenUp(trial=trial, mark=mark))

    def settle(self, key: _Judging, evaluation: Evaluation, repeats: int | None = None) -> None:
        number, level = key.number, key.level
        if repeats is None:
            self.devices(evaluation.given_up, number)
            evaluation = self.ledger.compared(number, evaluation)
        if evaluation.outcome is not Outcome.PASSED:
            # without the seed: the file is read by agents too, and another seed nearly always shows the same
            kernel = str(self.folder.kernel(number))
            again = check_command(kernel, self.spec.operator, self.spec.target, self.tools.targets)
            again += f" --level {level.value}" + (" --without-device" if self.spec.without_device else "")
            evaluation = evaluation.model_copy(update={"reproduce": again})
        trial = self.ledger.judged(number, level, evaluation, repeats, again=key.again)
        if self.tools.lessons is not None and level is Level.QUICK and not key.again:
            past = (self.ledger.trials, self.ledger.calls)
            teach(self.tools.lessons, trial, *past, family=self.tools.target.family, category=self.category)
        self.tools.emit(self.judged(trial, again=key.again))

    def judged(self, trial: TrialRecord, *, again: bool = False) -> TrialJudged:
        first = self.ledger.best
        best = first is not None and first.number == trial.number
        return judged_record(trial, self.folder, self.ledger.spent, best=best, again=again)

    # ------------------------------------------------------------ ending

    def worth_waiting(self) -> bool:
        """An interrupted run waits a little for replies that are paid for, and for nothing else."""
        if not any(isinstance(key, _Asked) for key in self.flights.keys):
            return False
        now = time.monotonic()
        if self.grace_ends is None:
            self.grace_ends = now + GRACE
            self.tools.emit(
                Notice(message=f"waiting up to {GRACE:g} s for replies that are paid for; Ctrl-C again kills")
            )
        return now < self.grace_ends

    def finish(self, stop: StopReason, winner: TrialRecord | None) -> TuneResult:
        if stop is StopReason.INTERRUPTED:
            for key in self.flights.keys:
                if isinstance(key, _Asked):
                    message = "in flight when the run was interrupted; charged at its reservation"
                    call = self.ledger.unanswered(key.number, CallStatus.LOST, message, charged=True)
                    self.tools.emit(ended_record(call, "lost"))
        status = {StopReason.INTERRUPTED: RunStatus.INTERRUPTED, StopReason.FAILED: RunStatus.FAILED}
        message = self.rotation.message
        if not self.ledger.calls and stop in (StopReason.USD, StopReason.TOKENS):
            message = "not even a first call fits into the limit: `tune --estimate` says what it needs"
        self.ledger.finish(status.get(stop, RunStatus.FINISHED), stop, message, winner)
        best = self.ledger.best if stop is StopReason.INTERRUPTED else winner
        record = result_record(self.ledger, self.folder, best)
        self.tools.emit(record)
        return record

    def abandon(self, error: BaseException) -> None:
        """Leave a resumable run behind whatever happened, and say so; a store that fails cannot be told."""
        message = error.message if isinstance(error, KernelsmithError) else f"{type(error).__name__}: {error}"
        self.ledger.finish(
            RunStatus.FAILED, StopReason.FAILED, message, None, on_disk=not isinstance(error, StoreError)
        )
        record = result_record(self.ledger, self.folder, self.ledger.best)
        self.tools.emit(record.model_copy(update={"exit_code": 2}))


def _landed(value: object, kind: type[T]) -> T:
    """The value of a flight that did not fail, as what it is known to be."""
    assert isinstance(value, kind)
    return value
