"""The loop with a scripted proposer and an in-process executor; kills with real processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from decimal import Decimal
from pathlib import Path

import pytest

from kernelsmith.errors import InfrastructureError, ProviderError, StoreError, UsageError
from kernelsmith.execute import DeviceLostError, Tell, quiet, wire
from kernelsmith.model import DeviceMark, Evaluation, Job
from kernelsmith.outcome import Level, Outcome
from kernelsmith.proposal import Budget, Move, Reply, StopReason, Usage
from kernelsmith.propose import Request
from kernelsmith.records import CallEnded, DeviceGivenUp, JudgingWaits, Notice, TrialJudged, TuneRecord, TuneResult
from kernelsmith.render import tune_line
from kernelsmith.runs import CallStatus, Run, RunStatus, spent
from kernelsmith.space import Sweep
from kernelsmith.store import Store
from kernelsmith.tune import Tools, tune
from tests.fakes import TARGET, FakeExecutor, Scripted, code, render, spec

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelsmith.flights.INFRASTRUCTURE_PAUSE", 0.0)
    monkeypatch.setattr("kernelsmith.tune.GRACE", 0.3)
    monkeypatch.setattr("kernelsmith.tune.POLL", 0.02)
    monkeypatch.setattr("kernelsmith.rotation.COOL_DOWN", 0.001)


class Bench:
    """One run and everything that happens in it."""

    def __init__(
        self,
        store: Store,
        *proposers: Scripted,
        executor: FakeExecutor | None = None,
        moves: tuple[frozenset[Move], ...] = (),
    ) -> None:
        self.store = store
        self.moves = moves
        self.executor = executor or FakeExecutor()
        self.proposers = proposers
        self.records: list[TuneRecord] = []
        self.interrupted = threading.Event()

    def tune(self, run: Run, *, resumed: bool = False) -> TuneResult:
        heard = (self.records.append, self.interrupted)
        tools = Tools(self.store, self.executor, self.proposers, TARGET, render, *heard, moves=self.moves)
        return tune(run, tools, resumed=resumed)

    def start(self, budget: Budget | None = None, **changes: object) -> TuneResult:
        return self.tune(self.store.create(spec(budget, **changes)))

    @property
    def outcomes(self) -> list[Outcome]:
        return [r.outcome for r in self.records if isinstance(r, TrialJudged) and r.level is Level.QUICK]


def test_why_a_trial_waits_is_told_before_its_verdict(store: Store) -> None:
    class Crowded(FakeExecutor):
        def evaluate(self, job: Job, tell: Tell = quiet) -> Evaluation:
            tell("waits for memory: none is free")
            tell("")
            return super().evaluate(job, tell)

    bench = Bench(store, Scripted([code("faster 1.5")]), executor=Crowded())
    bench.start(Budget(max_trials=1))
    heard = [r.why if isinstance(r, JudgingWaits) else r.record for r in bench.records]
    assert heard[heard.index("judging") :][:4] == ["judging", "waits for memory: none is free", "", "trial"]


def test_winner_is_the_fastest_after_a_full_check_and_a_longer_measurement(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 1.5"), code("faster 2.0"), code("wrong_values")]))
    sweeps = (Sweep(name="N", low=1, high=64),)
    result = bench.start(Budget(max_trials=3), sweeps=sweeps)
    assert (result.stop, result.exit_code) == (StopReason.TRIALS, 0)
    assert result.winner is not None and result.winner.trial == 2 and result.winner.rechecked
    # three kernels, the first two leaders once more before a model is shown them, and the winner
    assert [job.sweeps for job in bench.executor.jobs] == [(), (), (), (), (), sweeps]
    assert result.winner.speedup == pytest.approx({"eager": 2.4, "compile": 2.0})
    final = bench.executor.jobs[-1]
    assert final.level is Level.FULL and final.bench_seconds > bench.executor.jobs[0].bench_seconds
    assert len({job.seed for job in bench.executor.jobs}) == 6, "every evaluation has a seed of its own"
    assert "# faster 2.0" in Path(result.winner.kernel).read_text()
    assert result.outcomes == {"passed": 2, "wrong_values": 1}
    failed = store.trials(store.find(result.run))[2].evaluation
    assert failed is not None and failed.reproduce.endswith("003/kernel.py --op /op.py --device fake --level quick")
    assert result.spent.usage.usd == Decimal("0.03")


def test_a_leader_that_fails_the_full_check_yields_to_the_next(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 1.5"), code("faster 3.0 then wrong"), code("faster 2.5 then 1.2")]))
    result = bench.start(Budget(max_trials=3))
    assert result.winner is not None and result.winner.trial == 1
    assert [j.level for j in bench.executor.jobs].count(Level.FULL) == 3


@pytest.mark.parametrize(
    ("budget", "stop", "asked"),
    [
        (Budget(max_trials=2), StopReason.TRIALS, 2),
        (Budget(max_tokens=700), StopReason.TOKENS, 3),
        (Budget(max_usd=Decimal("0.05")), StopReason.USD, 4),
        (Budget(max_trials=9, goal=1.4), StopReason.GOAL, 5),
        (Budget(max_trials=99), StopReason.EXHAUSTED, 10),
    ],
)
def test_stop_reasons(store: Store, budget: Budget, stop: StopReason, asked: int) -> None:
    bench = Bench(store, Scripted([code(f"faster 1.{n}") for n in range(1, 10)]))
    result = bench.start(budget)
    assert result.stop is stop
    assert len(bench.proposers[0].asked) == asked


def test_time_limit_keeps_a_share_for_the_winner(store: Store) -> None:
    slow = Scripted((code(f"faster 1.{n}") for n in range(1, 999)), before=lambda _: time.sleep(0.02))
    result = Bench(store, slow).start(Budget(max_seconds=1.0))
    assert result.stop is StopReason.TIME
    assert result.winner is not None and result.winner.rechecked


def test_goal_that_the_longer_measurement_takes_back_is_searched_on(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 2.0 then 1.1"), code("faster 1.9")]))
    result = bench.start(Budget(max_trials=9, goal=1.8))
    assert result.stop is StopReason.GOAL and result.goal_met
    assert result.winner is not None and result.winner.trial == 2


def test_no_faster_kernel_is_no(store: Store) -> None:
    assert Bench(store, Scripted([code("faster 0.8")])).start().exit_code == 1
    assert Bench(store, Scripted([code("faster 1.01")])).start().exit_code == 1, "inconclusive is no"
    assert Bench(store, Scripted([code("wrong_values")])).start().winner is None


def test_repeated_kernel_takes_the_earlier_verdict_and_costs_no_evaluation(store: Store) -> None:
    bench = Bench(store, Scripted([code("wrong_values"), code("faster 1.5"), code("wrong_values")]))
    result = bench.start(Budget(max_trials=3))
    assert [job.level for job in bench.executor.jobs] == [Level.QUICK, Level.QUICK, Level.QUICK, Level.FULL]
    repeat = [t for t in store.trials(store.find(result.run)) if t.repeats]
    assert [(t.number, t.repeats) for t in repeat] == [(3, 1)]
    assert repeat[0].evaluation is not None and "trial 1" in repeat[0].evaluation.notes[-1]


def test_same_kernel_twice_in_flight_is_judged_once(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 1.5")] * 4), executor=FakeExecutor(delay=0.05))
    bench.start(Budget(max_trials=4), width=4)
    assert len(bench.executor.jobs) == 2, "one quick, one full"
    assert bench.outcomes == [Outcome.PASSED] * 4


def test_repairs_of_one_kernel_end_after_three(store: Store) -> None:
    bad = [code("compile_error", f"_ = {n}\n") for n in range(9)]
    bench = Bench(store, Scripted(["no code at all", *bad]))
    result = bench.start(Budget(max_trials=6))
    repairs = [
        r.brief.base.number if r.brief.move is Move.REPAIR and r.brief.base else None for r in bench.proposers[0].asked
    ]
    assert repairs == [None, 1, 2, 3, None, 5]
    assert "because it says compile_error" in bench.proposers[0].asked[2].prompt.user
    assert result.outcomes == {"no_code": 1, "compile_error": 5}


def test_changes_apply_to_the_kernel_that_was_shown_or_are_mended(store: Store) -> None:
    wanted = "<<<<<<< SEARCH\n    return x, '# faster {}'\n=======\n    return x, '# faster 2.0'\n>>>>>>> REPLACE\n"
    bench = Bench(
        store, Scripted([code("faster 1.5"), wanted.format("1.4"), code("wrong_values"), wanted.format("1.5")])
    )
    result = bench.start(Budget(max_trials=4), width=1)
    assert result.outcomes == {"passed": 2, "patch_failed": 1, "wrong_values": 1}
    assert result.winner is not None and result.winner.trial == 4
    mending = bench.proposers[0].asked[2]
    assert mending.brief.move is Move.REPAIR and mending.brief.partner is not None
    assert "line 3 is" in mending.prompt.user and "# faster 1.5" in mending.prompt.user
    assert "# faster 2.0" in Path(result.winner.kernel).read_text()


def test_a_model_that_is_kept_to_moves_is_asked_for_no_other(store: Store) -> None:
    cheap = Scripted(
        [code("compile_error"), code("faster 1.1"), *[code("faster 1.0", f"_ = {n}\n") for n in range(9)]], "cheap"
    )
    strong = Scripted([code("faster 1.5"), code("faster 1.6"), code("faster 1.7")], "strong")
    moves = (frozenset({Move.DRAFT, Move.REPAIR}), frozenset({Move.IMPROVE, Move.RECOMBINE}))
    bench = Bench(store, cheap, strong, moves=moves)
    result = bench.start(Budget(max_trials=5), width=1)
    assert [r.brief.move for r in cheap.asked] == [Move.DRAFT, Move.REPAIR]
    assert [r.brief.move for r in strong.asked] == [Move.IMPROVE] * 3
    assert result.winner is not None and result.winner.score == pytest.approx(1.7)


def test_rechecks_end_with_the_time(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    replies = [code(f"faster {9 - n}.0 then 0.{9 - n}", f"_ = {n}\n") for n in range(4)]
    bench = Bench(store, Scripted(replies, "offline"))
    monkeypatch.setattr("kernelsmith.ledger.Ledger.time_is_over", property(lambda _: True))
    result = bench.start(Budget(max_trials=4))
    assert [job.level for job in bench.executor.jobs].count(Level.FULL) == 1
    assert result.winner is not None and result.winner.trial == 1 and result.winner.rechecked


def test_wrong_values_are_told_and_not_repaired(store: Store) -> None:
    bench = Bench(store, Scripted([code("wrong_values"), code("faster 1.5"), code("faster 1.2")]))
    bench.start(Budget(max_trials=3))
    last = bench.proposers[0].asked[-1].brief
    assert last.move is not Move.REPAIR
    assert [t.number for t in last.failures] == [1] and [t.number for t in last.best] == [2]
    assert last.seeds and last.spent.usage.tokens == 300


def test_where_trials_failed_is_told_to_the_next_judge_latest_first(store: Store) -> None:
    sizes = [3, 5, 3, *range(10, 18)]
    bad = [code(f"wrong_values at {size}", f"_ = {n}\n") for n, size in enumerate(sizes)]
    bench = Bench(store, Scripted([*bad, code("compile_error"), code("faster 1.5")]))
    bench.start(Budget(max_trials=len(sizes) + 2), width=1)
    told = [[place.dims["N"] for place in job.revealing] for job in bench.executor.jobs]
    assert told[:5] == [[], [3], [5, 3], [3, 5], [10, 3, 5]]
    assert told[-1] == [17, 16, 15, 14, 13, 12, 11, 10], "the full check of the winner too"
    assert not any(place.replay for job in bench.executor.jobs for place in job.revealing)


def test_best_are_shown_fastest_last(store: Store) -> None:
    bench = Bench(store, Scripted([code(f"faster {s}") for s in (1.1, 3.0, 2.0, 1.5, 1.0)]))
    bench.start(Budget(max_trials=5))
    assert [t.number for t in bench.proposers[0].asked[-1].brief.best] == [4, 3, 2]


def test_start_kernel_is_the_first_trial(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 1.2")]))
    result = bench.start(Budget(max_trials=2), start="def op(x): ...  # faster 1.7\n")
    assert result.winner is not None and result.winner.origin == "start"
    assert len(bench.proposers[0].asked) == 1


def test_ensemble_takes_turns_and_goes_on_without_a_failed_one(store: Store) -> None:
    first = Scripted([code("faster 1.1"), ProviderError("status 500", "wait")], spec="openai:a")
    second = Scripted([code(f"faster 1.{n}") for n in range(2, 9)], spec="openai:b")
    bench = Bench(store, first, second)
    result = bench.start(Budget(max_trials=4))
    assert result.stop is StopReason.TRIALS and result.exit_code == 0
    assert (len(first.asked), len(second.asked)) == (2, 3)
    assert any("openai:a" in r.message and "500" in r.message for r in bench.records if isinstance(r, Notice))


@pytest.mark.parametrize("width", [1, 3])
def test_proposers_without_ideas_end_the_run_and_take_no_numbers(store: Store, width: int) -> None:
    first, second = Scripted([code("faster 1.1"), code("faster 1.2")], spec="a"), Scripted([], spec="b")
    bench = Bench(store, first, second)
    result = bench.start(width=width)
    assert result.stop is StopReason.EXHAUSTED
    assert len(first.asked) + len(second.asked) < 12, "nobody is asked in circles"
    run = store.find(result.run)
    numbers = [call.number for call in store.calls(run)]
    assert len(numbers) == len(set(numbers)) and numbers[0] == 1
    judged = [t.number for t in store.trials(run)]
    assert judged[0] == 1 and (width > 1 or judged == [1, 2]), "nothing takes no number"


def test_no_provider_that_answers_is_exit_code_2(store: Store) -> None:
    bench = Bench(store, Scripted([ProviderError("cannot connect", "start it")]))
    result = bench.start()
    assert (result.stop, result.exit_code) == (StopReason.FAILED, 2)
    assert "cannot connect" in result.message
    assert store.find(result.run).status is RunStatus.FAILED
    assert "--resume" in result.next


DOWN = ProviderError("status 503", "wait", passing=True)


def notices(bench: Bench) -> list[str]:
    return [record.message for record in bench.records if isinstance(record, Notice)]


def test_an_outage_is_waited_out(store: Store) -> None:
    outage = [code("faster 1.1"), DOWN, DOWN, DOWN, DOWN, code("faster 1.5")]
    bench = Bench(store, Scripted([*outage, DOWN, DOWN, DOWN, DOWN, code("faster 1.2")]))
    result = bench.start(Budget(max_trials=3))
    assert (result.stop, result.exit_code, result.message) == (StopReason.TRIALS, 0, "")
    assert result.outcomes == {"passed": 3}
    said = notices(bench)
    assert len(said) == 8 and "asked again in 0 s (failure 2 of 5 in a row): status 503" in said[1]


def test_an_outage_without_end_ends_the_run(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 1.1"), *[DOWN] * 9]))
    result = bench.start()
    assert (result.stop, result.exit_code) == (StopReason.FAILED, 0), "what was found before counts"
    assert len(bench.proposers[0].asked) == 6
    assert "failed 5 times in a row" in notices(bench)[-1] and "503" in result.message


def test_who_has_never_answered_is_given_up_early(store: Store) -> None:
    bench = Bench(store, Scripted([DOWN] * 9))
    result = bench.start()
    assert (result.stop, result.exit_code) == (StopReason.FAILED, 2)
    assert len(bench.proposers[0].asked) == 2


@pytest.mark.parametrize(("first", "stop", "exit_code"), [([code("faster 1.1")], "time", 0), ([], "failed", 2)])
def test_the_time_limit_ends_a_rest(
    store: Store, monkeypatch: pytest.MonkeyPatch, first: list[str], stop: str, exit_code: int
) -> None:
    monkeypatch.setattr("kernelsmith.rotation.COOL_DOWN", 1000.0)
    result = Bench(store, Scripted([*first, DOWN, *[DOWN] * 99])).start(Budget(max_seconds=0.5))
    assert (result.stop.value, result.exit_code, result.message) == (stop, exit_code, "status 503")


def test_an_interrupt_ends_a_rest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelsmith.rotation.COOL_DOWN", 1000.0)
    bench = Bench(store, Scripted([DOWN]))
    threading.Timer(0.2, bench.interrupted.set).start()
    assert bench.start().stop is StopReason.INTERRUPTED


def test_failed_call_that_may_be_billed_counts_at_its_reservation(store: Store) -> None:
    bench = Bench(store, Scripted([ProviderError("timeout", billed=True)]), Scripted([code("faster 1.1")], spec="b"))
    assert bench.start().spent.usage.usd == Decimal("0.03")


def test_infrastructure_failures_are_retried_and_not_charged(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 1.5")]), executor=FakeExecutor(broken=2))
    assert bench.start().outcomes == {"passed": 1}


def test_infrastructure_that_stays_broken_stops_the_run_and_resume_judges_again(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 1.5")]), executor=FakeExecutor(broken=3))
    run = store.create(spec(Budget(max_trials=1)))
    with pytest.raises(InfrastructureError):
        bench.tune(run)
    run = store.find(run.id)
    assert run.status is RunStatus.FAILED and store.trials(run)[0].verdict is None
    last = bench.records[-1]
    assert isinstance(last, TuneResult) and last.exit_code == 2 and last.next.startswith("kernelsmith tune --resume")
    again = Bench(store, Scripted([]))
    result = again.tune(run, resumed=True)
    assert result.winner is not None and not again.proposers[0].asked


MARK = DeviceMark(device="cuda:0", since="2026-01-02T03:04:05+00:00", why="a process does not die", boot="b", pid=7)


def test_a_lost_device_ends_the_run_at_once_and_what_was_paid_is_judged_later(store: Store) -> None:
    class Lost(FakeExecutor):
        def evaluate(self, job: Job, tell: Tell = quiet) -> Evaluation:
            self.jobs.append(job)
            raise wire.broken(1, DeviceLostError("no device is left", "doctor", (MARK,))).raised()

    bench = Bench(store, Scripted([code("faster 1.5")]), executor=Lost())
    run = store.create(spec(Budget(max_trials=1)))
    with pytest.raises(DeviceLostError, match="no device is left"):
        bench.tune(run)
    assert len(bench.executor.jobs) == 1, "the judge has tried every card"
    assert [(r.trial, r.mark) for r in bench.records if isinstance(r, DeviceGivenUp)] == [(1, MARK)]
    last = bench.records[-1]
    assert isinstance(last, TuneResult) and last.exit_code == 2 and last.next.startswith("kernelsmith tune --resume")
    again = Bench(store, Scripted([]))
    assert again.tune(store.find(run.id), resumed=True).winner is not None and not again.proposers[0].asked


def test_a_card_given_up_on_the_way_is_told_and_kept_with_the_verdict(store: Store) -> None:
    class Moving(FakeExecutor):
        def evaluate(self, job: Job, tell: Tell = quiet) -> Evaluation:
            return super().evaluate(job, tell).model_copy(update={"given_up": () if self.jobs[1:] else (MARK,)})

    bench = Bench(store, Scripted([code("faster 1.5")]), executor=Moving())
    result = bench.start()
    assert result.winner is not None
    told = [r for r in bench.records if isinstance(r, DeviceGivenUp)]
    assert [(r.trial, r.mark) for r in told] == [(1, MARK)]
    assert tune_line(told[0]) == "device: cuda:0 was given up at 2026-01-02T03:04:05+00:00: a process does not die"


def test_interrupt_waits_for_paid_replies_then_counts_them_as_lost(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 1.5"), code("faster 1.6")]))

    def before(request: Request) -> None:
        if request.brief.trial == 2:
            bench.interrupted.set()
            time.sleep(1)

    bench.proposers[0].before = before
    result = bench.start()
    assert (result.stop, result.exit_code) == (StopReason.INTERRUPTED, 130)
    assert f"--resume {result.run}" in result.next
    assert result.spent.usage.usd == Decimal("0.03"), "one reply at its cost, one lost at its reservation"
    assert [r.status for r in bench.records if isinstance(r, CallEnded)] == ["answered", "lost"]
    assert result.winner is not None and not result.winner.rechecked, "the best so far, not a winner"


def test_reply_that_arrives_in_the_grace_is_kept_and_judged_on_resume(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 1.5")]))
    bench.proposers[0].before = lambda _: bench.interrupted.set() or time.sleep(0.05)
    run = store.create(spec(Budget(max_trials=1)))
    assert bench.tune(run).exit_code == 130
    assert not bench.executor.jobs
    again = Bench(store, Scripted([]))
    result = again.tune(store.find(run.id), resumed=True)
    assert result.exit_code == 0 and not again.proposers[0].asked


def test_resume_of_a_finished_run_repeats_nothing(store: Store) -> None:
    result = Bench(store, Scripted([code("faster 1.5")])).start(Budget(max_trials=1))
    again = Bench(store, Scripted([code("faster 9.9")]))
    second = again.tune(store.find(result.run), resumed=True)
    assert second.winner == result.winner
    assert not again.executor.jobs and not again.proposers[0].asked


class Priced:
    """Charges at random, up to what it reserved; answers as long as it is let."""

    spec, priced = "openai:random", True

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.lock, self.count = rng, threading.Lock(), 0
        self.rate = Decimal(rng.randint(1, 50)) / 100_000

    def reserve(self, request: Request) -> Usage:
        output = min(4000, request.max_output_tokens or 4000)
        return Usage(input_tokens=300, output_tokens=output, usd=self.rate * (300 + 4 * output) / 100)

    def propose(self, request: Request) -> Reply:
        most = self.reserve(request)
        with self.lock:
            self.count += 1
            output = self.rng.choice([most.output_tokens, self.rng.randint(1, most.output_tokens)])
            text = code("wrong_values", f"_ = {self.count}\n")
        usage = Usage(input_tokens=300, output_tokens=output, usd=self.rate * (300 + 4 * output) / 100)
        return Reply(text=text, usage=usage, model=self.spec)


@pytest.mark.parametrize("seed", range(12))
def test_money_and_tokens_are_never_exceeded(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    limits = {"max_usd": Decimal(rng.randint(1, 300)) / 1000, "max_tokens": rng.randint(1000, 40000)}
    budget = Budget(max_trials=25, **{k: v for k, v in limits.items() if rng.random() < 0.7})
    bench = Bench(store, *(Priced(rng) for _ in range(2)))  # type: ignore[arg-type]
    result = bench.start(budget, width=rng.randint(1, 4))
    used = result.spent.usage
    assert budget.max_usd is None or used.usd <= budget.max_usd
    assert budget.max_tokens is None or used.tokens <= budget.max_tokens
    run = store.find(result.run)
    assert result.spent == spent(store.calls(run), store.trials(run), result.spent.seconds), "the sums are kept right"
    assert result.stop in (StopReason.USD, StopReason.TOKENS, StopReason.TRIALS)


def test_store_that_fails_in_the_middle_ends_the_run_and_says_how_to_go_on(store: Store) -> None:
    bench = Bench(store, Scripted([code("faster 1.5"), code("faster 1.6")]))
    full = StoreError("database or disk is full", "make room")

    def refuse(*_: object) -> None:
        raise full

    bench.proposers[0].before = lambda r: r.brief.trial == 2 and setattr(store, "answered", refuse)
    with pytest.raises(StoreError, match="full"):
        bench.start()
    last = bench.records[-1]
    assert isinstance(last, TuneResult) and "disk is full" in last.message and "--resume" in last.next
    with Store.open(store.folder) as again:
        assert again.calls(again.runs()[0])[1].status is CallStatus.INTENT
        assert again.trials(again.runs()[0])[0].verdict is not None


# ---------------------------------------------------------------- kills


def _session(tmp_path: Path, slow: str, resume: str = "") -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-m", "tests.fakes", str(tmp_path / "runs"), str(tmp_path / "log"), slow]
    return subprocess.Popen(
        [*arguments, *([resume] if resume else [])], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )


def _wait_for(path: Path, text: str) -> None:
    for _ in range(600):
        if path.exists() and text in path.read_text():
            return
        time.sleep(0.05)
    raise AssertionError(f"{text!r} never appeared in {path}")


@pytest.mark.parametrize(("slow", "lost"), [("call", 1), ("reply", 0), ("bench", 0), ("recheck", 0)])
def test_sigkill_loses_nothing_and_pays_nothing_twice(tmp_path: Path, slow: str, lost: int) -> None:
    log = tmp_path / "log"
    first = _session(tmp_path, slow)
    _wait_for(log, "hanging")
    first.send_signal(signal.SIGKILL)
    first.wait()
    with Store.open(tmp_path / "runs") as store:
        run = store.runs()[0]
        assert run.status is RunStatus.RUNNING and not store.held(run)
    assert _session(tmp_path, "nowhere", run.id).wait() == 0
    lines = log.read_text().splitlines()
    asked = [line for line in lines if line.startswith("asked")]
    assert asked == ["asked 1", "asked 2", "asked 3"], "no trial is asked for twice"
    with Store.open(tmp_path / "runs") as store:
        run = store.find(run.id)
        calls, trials = store.calls(run), store.trials(run)
        assert run.status is RunStatus.FINISHED
        assert [c.status for c in calls].count(CallStatus.LOST) == lost
        assert len(trials) == 3 - lost and all(t.verdict for t in trials)
        charged = sum((c.usage.usd for c in calls), Decimal(0))
        assert charged == Decimal("0.03") + lost * Decimal("0.01"), "a lost call is charged at its reservation"


def test_one_process_per_run(tmp_path: Path) -> None:
    first = _session(tmp_path, "call")
    try:
        _wait_for(tmp_path / "log", "hanging")
        with Store.open(tmp_path / "runs") as store:
            run = store.runs()[0]
            assert store.held(run)
            with pytest.raises(UsageError, match="another process"):
                store.lock(run)
            with pytest.raises(UsageError, match="another process"):
                store.remove(run)
    finally:
        first.kill()
        first.wait()


def test_two_runs_share_a_store(tmp_path: Path) -> None:
    sessions = [_session(tmp_path, "nowhere") for _ in range(2)]
    assert [s.wait() for s in sessions] == [0, 0]
    with Store.open(tmp_path / "runs") as store:
        assert [run.status for run in store.runs()] == [RunStatus.FINISHED] * 2
        assert [len(store.trials(run)) for run in store.runs()] == [3, 3]
