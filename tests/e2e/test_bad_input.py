"""What a person or a server may get wrong, through the command line: exit code 2, an error with a hint, nothing lost.

Flags and settings are in tests/test_cli.py, all that an operator file can say wrong in tests/operators, servers down to
the last fault in tests/propose/test_remote.py, the store alone in tests/test_store.py.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from kernelsmith import session, targets
from kernelsmith.config import Settings
from kernelsmith.execute import Executor
from kernelsmith.execute.local import LocalExecutor
from kernelsmith.model import OperatorRef
from kernelsmith.propose import remote, specs
from kernelsmith.runs import CallStatus
from kernelsmith.store import FILE, Store
from kernelsmith.targets import Target
from tests.cli_with_fakes import fake_executor
from tests.e2e import kernels
from tests.e2e.running import ROOT, Folder
from tests.fakes import code
from tests.servers import Fault, ModelServer, Script, empty, fault, huge, ok, status
from tests.test_cli import Cli


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 2, and an error with a hint that say these words."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert "\nerror: " in f"\n{done.stderr}" and "\nhint: " in done.stderr and "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


# ---------------------------------------------------------------- operators and kernels, with the real judge

OPERATORS = {
    "syntax": (("def row_norm(x", "def row_norm(x("), "op.py:11: syntax error"),
    "import": (("import torch\n", "import torch, torche\n"), "op.py:3: ModuleNotFoundError: No module named 'torche'"),
    "raises": (("return x", "raise ValueError('not today')\n    return x"), "op.py:12: the reference raised at M=48"),
    "illegal": (("workloads=", "where=[M > N], workloads="), "workload (M=48, N=256): where= M > N does not hold"),
    "outside": (("M=48", "M=65"), "M=65 is outside 1..64"),
}


@pytest.fixture(scope="module")
def judge() -> Iterator[LocalExecutor]:
    """A real one in its own process, which takes seconds to start."""
    with LocalExecutor("cpu") as executor:
        yield executor


@pytest.fixture
def judged(cli: Cli, judge: LocalExecutor, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Commands in this process, all with that judge."""

    @contextmanager
    def shared(
        device: str, settings: Settings, operator: OperatorRef, *, without_device: bool
    ) -> Iterator[tuple[Target, Executor]]:
        yield targets.resolve(device), judge

    monkeypatch.setattr(session, "executor_for", shared)
    (cli.folder / "op.py").write_text(kernels.OPERATOR)
    return cli


def spoilt(case: str) -> str:
    (old, new), _ = OPERATORS[case]
    assert kernels.OPERATOR.count(old) == 1
    return kernels.OPERATOR.replace(old, new)


@pytest.mark.parametrize("case", OPERATORS)
def test_an_operator_that_cannot_be_used(judged: Cli, case: str) -> None:
    (judged.folder / "op.py").write_text(spoilt(case))
    done = judged("tune", "op.py", "--json")
    refused(done, "op.py:", OPERATORS[case][1])
    assert done.stdout == ""
    with Store.open(judged.folder / "runs") as store:
        assert store.runs() == (), "no run begins"


def test_an_operator_that_cannot_be_used_leaves_nothing(folder: Folder) -> None:
    folder.operator.write_text(spoilt("raises"))
    done = folder.run("tune", "op.py", "--json")
    refused(done, "op.py:", OPERATORS["raises"][1])
    assert done.stdout == "" and not folder.left_behind()


@pytest.mark.parametrize(
    ("source", "outcome", "words"),
    [
        (kernels.SYNTAX_ERROR, "compile_error", "syntax error at line"),
        (kernels.FORBIDDEN_IMPORT, "rejected", "line 2: import of 'subprocess'"),
    ],
)
def test_a_kernel_that_is_refused_unseen_is_an_answer(judged: Cli, source: str, outcome: str, words: str) -> None:
    (judged.folder / "kernel.py").write_text(source)
    done = judged("check", "kernel.py", "--op", "op.py", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["outcome"], report["stage"]) == (1, outcome, "screen")
    assert words in report["message"] and done.stderr == ""


# ---------------------------------------------------------------- servers, with a judge that reads the verdict


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    monkeypatch.setattr(session, "executor_for", fake_executor)
    monkeypatch.setattr(specs, "Retry", partial(remote.Retry, first=0.01))
    monkeypatch.setattr("kernelsmith.rotation.COOL_DOWN", 0.01)
    return Cli(tmp_path, monkeypatch, capsys)


def specification(server: ModelServer, protocol: str) -> str:
    make = server.openai_spec if protocol == "openai" else server.anthropic_spec
    return make(options="price_input=1&price_output=10&max_output_tokens=2000")


def tune(cli: Cli, model: str) -> subprocess.CompletedProcess[str]:
    return cli("tune", "op.py", "--model", model, "--max-trials", "1", "--max-usd", "1", "--width", "1")


both = pytest.mark.parametrize("protocol", ["openai", "anthropic"])
FAULTS: dict[str, tuple[Script, str, bool]] = {
    "down": (empty(), "cannot connect", False),
    "429": (status(429), "status 429", False),
    "500": (status(500), "status 500", False),
    "401": (status(401), "key", False),
    "malformed": (fault(Fault.MALFORMED), "not a JSON object", True),
}
"""A server's fault, words of the error, and whether the call counts at its reservation, as it may have been billed."""


@both
@pytest.mark.parametrize("case", FAULTS)
def test_a_server_that_cannot_answer(cli: Cli, protocol: str, case: str) -> None:
    script, words, billed = FAULTS[case]
    with ModelServer([script]) as server:
        model = specification(server, protocol)
        if case != "down":
            refused(tune(cli, model), words)
    if case == "down":
        refused(tune(cli, model), words, server.url.removeprefix("http://"))
    with Store.open(cli.folder / "runs", create=False) as store:
        (run,) = store.runs()
        calls = store.calls(run)
    assert len(calls) == (1 if case == "401" else 2), "what may pass is tried once more after a rest"
    for call in calls:
        assert call.status is CallStatus.FAILED
        assert call.usage.usd == (call.reserved.usd if billed else Decimal(0)) and call.reserved.usd > 0
    with ModelServer([code("faster 1.5")]) as server:
        again = cli("tune", "--resume", run.id, "--model", specification(server, protocol), "--json")
    assert again.returncode == 0, "the run goes on once the server does"


@both
@pytest.mark.parametrize(
    ("script", "words"),
    [
        (fault(Fault.ENDLESS), "cut off before its end"),
        (huge(), "no Python module"),
        (empty(), "the reply is empty"),
    ],
    ids=["endless", "2MB", "empty"],
)
def test_a_reply_without_a_kernel_is_a_trial_that_was_paid_for(
    cli: Cli, protocol: str, script: Script, words: str
) -> None:
    with ModelServer([script]) as server:
        done = tune(cli, specification(server, protocol))
        assert done.returncode == 1 and "1 no_code" in done.stdout and words in done.stderr
        assert len(server.requests) == 1
    with Store.open(cli.folder / "runs", create=False) as store:
        (call,) = store.calls(store.runs()[0])
    assert call.status is CallStatus.ANSWERED and Decimal(0) < call.usage.usd <= call.reserved.usd


# ---------------------------------------------------------------- the store


def corrupt(folder: Path) -> Path:
    folder.mkdir()
    (folder / FILE).write_bytes(b"not a database at all" * 500)
    return folder


def newer(folder: Path) -> Path:
    with Store.open(folder):
        pass
    connection = sqlite3.connect(folder / FILE)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    return folder


def unwritable(folder: Path) -> Path:
    """Nobody makes folders in /sys; a mode stops only those who are not root."""
    if os.geteuid() == 0:
        return Path("/sys/kernelsmith-runs")
    folder.mkdir(mode=0o555)
    return folder


@pytest.mark.parametrize(
    ("make", "words"), [(corrupt, "move it away"), (newer, "has version 99"), (unwritable, "--runs")]
)
def test_a_store_that_cannot_be_used(cli: Cli, make: Callable[[Path], Path], words: str) -> None:
    runs = make(cli.folder / "store")
    before = (runs / FILE).read_bytes() if (runs / FILE).exists() else b""
    model = "command:touch asked"
    refused(cli("tune", "op.py", "--model", model, "--runs", str(runs)), words)
    assert not (cli.folder / "asked").exists(), "nobody is asked before the reply can be kept"
    if before:
        refused(cli("report", "--runs", str(runs)), words)
        refused(cli("tune", "--resume", "x", "--runs", str(runs)), words)
        assert (runs / FILE).read_bytes() == before


SMALL_DISK = 400_000


def test_a_disk_that_fills_up_while_a_model_answers(cli: Cli) -> None:
    """Files cannot grow beyond a size that the store fits into, and the long reply does not."""
    long = code("faster 1.5") + "# and so on\n" * (SMALL_DISK // 10)
    with ModelServer([ok(long), ok(code("faster 1.5"))]) as server:
        arguments = ["--model", specification(server, "openai"), "--max-trials", "2", "--max-usd", "1", "--width", "1"]
        command = [sys.executable, "-m", "tests.cli_with_fakes", "tune", "op.py", *arguments]
        done = subprocess.run(
            command,
            cwd=cli.folder,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_DISK, SMALL_DISK)),
        )
        refused(done, "make room", "--resume")
        run = json.loads(cli("runs", "list", "--json").stdout)["runs"][0]["run"]
        again = cli("tune", "--resume", run, "--json")
        assert again.returncode == 0 and len(server.requests) == 2
    with Store.open(cli.folder / "runs", create=False) as store:
        lost, answered = store.calls(store.find(run))
    assert (lost.status, answered.status) == (CallStatus.LOST, CallStatus.ANSWERED)
    assert lost.usage == lost.reserved
