from __future__ import annotations

import random
import types
from dataclasses import dataclass

import pytest

from kernelsmith import ledger
from kernelsmith.costs import UNTAUGHT, Growth, costs, learned
from kernelsmith.execute import Tell, quiet
from kernelsmith.model import Evaluation, Job, StageSeconds
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.proposal import Budget, Candidate, StopReason, Usage
from kernelsmith.propose import Request
from kernelsmith.runs import RunSpec, TrialRecord, Verdict
from kernelsmith.store import Store
from kernelsmith.tune import Tools, tune
from tests.fakes import TARGET, FakeExecutor, Scripted, code, info, render, spec

QUICK = StageSeconds(compile=1, check=2, bench=8, total=12)
FIRST = StageSeconds(compile=1, check=2, bench=35, total=39)
"""The baselines are compiled as well."""


def trial(
    number: int, seconds: StageSeconds, level: Level = Level.QUICK, outcome: Outcome = Outcome.PASSED
) -> TrialRecord:
    evaluation = Evaluation(outcome=outcome, stage=Stage.BENCH, message="why", seconds=seconds)
    candidate = Candidate(source=f"# {number}", origin="test")
    return TrialRecord(number=number, candidate=candidate, verdict=Verdict(level=level, seed=1, evaluation=evaluation))


def test_stages_are_foretold_one_by_one() -> None:
    assert costs([trial(1, QUICK)], Growth(check=10, bench=1)).recheck == 1 + 20 + 8 + 1
    assert Growth(check=100, bench=1).recheck(QUICK) == 1 + 120 + 8 + 1, "the level's own limit"
    assert costs([], UNTAUGHT).recheck == 0


def test_the_trial_that_had_the_baselines_compiled_does_not_speak_for_all() -> None:
    """It was taken for the price of every further trial, and three times of it was kept for the winner."""
    told = costs([trial(1, FIRST), trial(2, QUICK), trial(3, QUICK)], Growth(check=10, bench=1))
    assert (told.trial, told.recheck) == (12, 30)


def test_failures_and_repeats_tell_nothing() -> None:
    repeated = trial(3, FIRST).model_copy(update={"repeats": 1})
    failed = trial(2, StageSeconds(total=0.1), outcome=Outcome.COMPILE_ERROR)
    assert costs([trial(1, QUICK), failed, repeated], UNTAUGHT).trial == 12


def test_a_recheck_of_this_run_is_what_the_next_one_takes() -> None:
    full = trial(1, StageSeconds(check=50, bench=9, total=66), Level.FULL)
    assert costs([full, trial(2, QUICK)], UNTAUGHT).recheck == 66


def _earlier(store: Store, made: RunSpec, check: float, bench: float) -> None:
    run = store.create(made)
    for number in (1, 2):
        one = trial(number, QUICK)
        store.add_trial(run, one)
        store.add_verdict(run, one, 1.0)
    full = StageSeconds(compile=1, check=check, bench=bench, total=check + bench + 2)
    store.add_verdict(run, trial(2, full, Level.FULL), 2.0)


def test_earlier_runs_teach_what_a_recheck_takes(store: Store) -> None:
    other = info().model_copy(update={"digest": "another"})
    assert learned(store, store.create(spec())) == UNTAUGHT
    _earlier(store, spec(info=other), check=40, bench=4)
    _earlier(store, spec(info=other), check=60, bench=4)
    assert learned(store, store.create(spec())) == Growth(check=20, bench=0.5), "the median, the prior counted in"
    _earlier(store, spec(), check=8, bench=16)
    assert learned(store, store.create(spec())) == Growth(check=4, bench=2), "its own tells more than others"
    assert learned(store, store.create(spec(target="elsewhere"))) == UNTAUGHT


@dataclass
class Clock:
    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Slow(FakeExecutor):
    """Every evaluation takes its seconds by the run's clock; the first of a run has the baselines compiled."""

    clock: Clock | None = None
    stages: tuple[StageSeconds, StageSeconds, StageSeconds] = (FIRST, QUICK, QUICK)
    began_full: float = 0.0

    def evaluate(self, job: Job, tell: Tell = quiet) -> Evaluation:
        assert self.clock is not None
        first, usual, full = self.stages
        if job.level is Level.FULL:
            self.began_full = self.clock.now
        seconds = full if job.level is Level.FULL else usual if self.jobs else first
        self.clock.now += seconds.total
        return super().evaluate(job, tell).model_copy(update={"seconds": seconds})


@pytest.mark.parametrize("seed", range(8))
def test_the_search_leaves_the_winner_its_time_and_no_more(
    store: Store, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whatever calls and judging take: the re-check begins with its seconds left, and a trial more would not have
    fitted."""
    rng = random.Random(seed)
    limit, call, check, bench = 240.0, rng.uniform(0, 20), rng.uniform(1, 3), rng.uniform(4, 10)
    usual = StageSeconds(check=check, bench=bench, total=check + bench)
    full = StageSeconds(check=12 * check, bench=bench, total=12 * check + bench)
    clock = Clock()
    judge = Slow(clock=clock, stages=(usual.model_copy(update={"total": usual.total + 30}), usual, full))
    monkeypatch.setattr(ledger, "time", types.SimpleNamespace(monotonic=clock.monotonic))

    def take(_: Request) -> None:
        clock.now += call

    answers = [code(f"faster 1.{100 + n}") for n in range(99)]
    proposer = Scripted(answers, spec="offline", usage=Usage(seconds=call), before=take)
    began = clock.now
    result = tune(
        store.create(spec(Budget(max_seconds=limit))), Tools(store, judge, (proposer,), TARGET, render, lambda _: None)
    )
    assert result.stop is StopReason.TIME and result.winner is not None and result.winner.rechecked
    left = began + limit - judge.began_full
    assert full.total <= left <= max(0.1 * limit, full.total) + 2 * (call + usual.total) + 1
    assert clock.now <= began + limit


def test_a_call_that_would_be_cut_is_not_made(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean over an ensemble hides that one of its models takes long."""
    clock = Clock()
    monkeypatch.setattr(ledger, "time", types.SimpleNamespace(monotonic=clock.monotonic))

    def taking(seconds: float, spec: str, count: int) -> Scripted:
        def take(_: Request) -> None:
            clock.now += seconds

        answers = [code(f"faster 1.{n}", f"# {spec}\n") for n in range(count)]
        return Scripted(answers, spec=spec, usage=Usage(seconds=seconds), before=take)

    slow, fast = taking(60, "slow", 9), taking(1, "fast", 30)
    tools = Tools(store, FakeExecutor(), (slow, fast), TARGET, render, lambda _: None)
    result = tune(store.create(spec(Budget(max_seconds=200), models=("slow", "fast"))), tools)
    assert result.stop in (StopReason.TIME, StopReason.EXHAUSTED)
    assert all(request.seconds >= 60 for request in slow.asked), "a call is given what its model has been seen to take"
    assert len(fast.asked) > 20, "and the quick one goes on in the rest"
