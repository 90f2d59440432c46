"""The Inductor table: verdicts, a worker that dies, results that are kept. The worker here is a stand-in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.triton_cpu import inductor
from benchmarks.triton_cpu.inductor import Plan, Verdict, measure
from benchmarks.triton_cpu.inductor_operators import FAMILIES

WORKER = """
import json, os, sys
log, *names = sys.argv[1:]
say = lambda **record: print(json.dumps(record), flush=True)
for name in names:
    open(log, "a").write(name + " ")
    say(start=name)
    if name == "abs":
        os._exit(9)
    for sample in range(2):
        verdict = "wrong" if (name, sample) == ("add", 1) else "right"
        say(dtype="float32", sample=sample, verdict=verdict, launches=int(name != "cat"), reason="off by one")
    say(end=name)
"""


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Plan:
    command = [sys.executable, "-c", WORKER, str(tmp_path / "log")]
    monkeypatch.setattr(inductor, "worker_command", lambda plan: command)
    return Plan(("sin", "abs", "cat", "add"), samples=2, dynamic=False, results=tmp_path / "results.jsonl")


def test_a_crash_costs_one_operator_and_nothing_is_run_twice(plan: Plan, tmp_path: Path) -> None:
    rows = {row.operator: row for row in measure(plan)}
    expected = {"sin": Verdict.RIGHT, "abs": Verdict.CRASH, "cat": Verdict.ATEN, "add": Verdict.WRONG}
    assert {name: row.verdict for name, row in rows.items()} == expected
    assert "status 9" in rows["abs"].reason
    assert rows["add"].reason == "float32, sample 1: off by one"
    assert (rows["add"].samples, rows["add"].right, rows["sin"].launches) == (2, 1, 2)
    assert (tmp_path / "log").read_text().split() == list(plan.names)
    assert {row.operator: row for row in measure(plan)} == rows
    assert (tmp_path / "log").read_text().split() == list(plan.names)


def test_every_operator_is_in_one_family() -> None:
    names = [name for family in FAMILIES.values() for name in family]
    assert len(names) == len(set(names)) >= 150
