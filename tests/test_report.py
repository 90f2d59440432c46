from __future__ import annotations

import csv
import io
import json
from decimal import Decimal

import pytest

from kernelsmith.errors import UsageError
from kernelsmith.outcome import Level
from kernelsmith.proposal import Reply, StopReason, Usage
from kernelsmith.records import RunState
from kernelsmith.report import render, summarise
from kernelsmith.runs import CallStatus, Run, RunStatus
from kernelsmith.store import Store
from tests.fakes import spec
from tests.test_store import PROMPT, call, filled, judged


@pytest.fixture
def run(store: Store) -> Run:
    """One judged trial, one lost call, another that was answered by a model with an awkward name."""
    run = filled(store)
    store.intend(run, call(2), PROMPT, 4.0)
    store.unanswered(run, 2, CallStatus.LOST, Usage(usd=Decimal("0.5")), "killed")
    store.intend(run, call(3), PROMPT, 4.0)
    store.answered(run, 3, Reply(text="", usage=Usage(), model="command:a|b"), 9.0)
    ended = {"status": RunStatus.FINISHED, "stop": StopReason.GOAL, "winner": 1, "seconds": 9.0}
    run = run.model_copy(update=ended)
    store.finish(run)
    return run


def test_everything_comes_from_the_store(store: Store, run: Run) -> None:
    (report,) = summarise(store, store.runs()).runs
    assert (report.status, report.stop, report.trials, report.calls_lost) == ("finished", "goal", 1, 1)
    assert report.outcomes == {"passed": 1}
    assert (report.winner, report.faster, report.rechecked) == (1, True, False)
    assert report.workloads[0].speedup == {"eager": 2.4, "compile": 2.0}
    assert report.spent.usage.usd == Decimal("0.5") + Decimal("0.1234567890123456789")


def test_a_run_nobody_holds_was_killed(store: Store) -> None:
    run = store.create(spec())
    assert summarise(store, [run]).runs[0].status is RunState.RUNNING
    assert f"{run.id}: op on fake, running\n" in render(summarise(store, [run]), "table")
    store.close()
    with Store.open(store.folder) as again:
        assert summarise(again, again.runs()).runs[0].status is RunState.KILLED


def test_formats(store: Store, run: Run) -> None:
    reports = summarise(store, store.runs())
    said = json.loads(render(reports, "json"))["runs"][0]
    assert (said["run"], said["status"], said["stop"]) == (run.id, "finished", "goal")
    (row,) = csv.DictReader(io.StringIO(render(reports, "csv")))
    assert (row["run"], row["workload"], row["verdict"]) == (run.id, "N=1024", "faster")
    assert float(row["score"]) == pytest.approx(2.0) and Decimal(row["usd"]) == reports.runs[0].spent.usage.usd
    markdown = render(reports, "md")
    assert f"## {run.id}" in markdown and "\\(1 call lost, charged at its reservation\\)" in markdown
    assert "faster than the best baseline" in render(reports, "table")
    with pytest.raises(UsageError, match="pdf"):
        render(reports, "pdf")


def test_no_runs(store: Store) -> None:
    nothing = summarise(store, store.runs())
    assert render(nothing, "table") == "no runs\n"
    assert len(render(nothing, "csv").splitlines()) == 1


def test_markdown_cells_are_escaped(store: Store, run: Run) -> None:
    (report,) = summarise(store, store.runs()).runs
    hostile = report.model_copy(update={"operator": "a|b<script>![x](http://y)\u202e=1"})
    text = render(type(summarise(store, ()))(runs=(hostile,)), "md")
    assert "a\\|b&lt;script&gt;\\!\\[x\\]\\(http://y\\)\\\\u202e=1" in text


def test_level_of_the_verdict_decides_rechecked(store: Store, run: Run) -> None:
    full = judged()
    assert full.verdict is not None
    verdict = full.verdict.model_copy(update={"level": Level.FULL})
    store.add_verdict(run, full.model_copy(update={"verdict": verdict}), 10.0)
    assert summarise(store, [run]).runs[0].rechecked


def test_an_interrupted_run_says_so_once(store: Store) -> None:
    run = store.create(spec()).model_copy(update={"status": RunStatus.INTERRUPTED, "stop": StopReason.INTERRUPTED})
    store.finish(run)
    assert f"{run.id}: op on fake, interrupted\n" in render(summarise(store, store.runs()), "table")
