"""`kernelsmith doctor --sandbox`: a line for each program, one record with --json, exit code by what held."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernelsmith.diagnosis import DrillReport
from kernelsmith.drill import catalog
from kernelsmith.drill.catalog import Act, Ended
from tests.test_cli import Cli

ACTS = [act for act in catalog.acts() if act.name in ("exit_in_many_ways", "read_secrets")]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.setattr(catalog, "cheats", lambda: iter(()))
    return Cli(tmp_path, monkeypatch, capsys)


def test_what_holds(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "acts", lambda: iter(ACTS))
    done = cli("doctor", "--sandbox")
    assert done.returncode == 0
    assert "held      full                     exit_in_many_ways" in done.stdout and "full: 2 of 2 held" in done.stdout
    done = cli("doctor", "--sandbox", "--json")
    report = DrillReport.model_validate_json(done.stdout)
    assert (
        done.returncode == 0
        and report.held
        and {result.mode for result in report.results} | report.not_run.keys()
        >= {
            "full",
            "without namespaces",
            "without Landlock",
        }
    )
    assert json.loads(done.stdout)["results"][0]["record"] == "drill"


def test_what_does_not_hold(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    impossible = [Act(act.name, act.about, act.source, frozenset({Ended.DISK}), 5.0) for act in ACTS]
    monkeypatch.setattr(catalog, "acts", lambda: iter(impossible))
    done = cli("doctor", "--sandbox")
    assert done.returncode == 1
    assert "NOT HELD" in done.stdout and "full: 0 of 2 held" in done.stdout
    assert "escape: ended as exited, not as disk" in done.stdout
