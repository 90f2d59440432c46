"""An operator out of somebody else's run, judged by a real judge in quarantine."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kernelsmith.errors import OperatorError, UsageError
from kernelsmith.execute.local import LocalExecutor
from kernelsmith.model import Job, OperatorRef
from kernelsmith.outcome import Outcome
from tests.e2e import kernels

HOSTILE = """
import os, socket, subprocess
found = []
def attempt(name, act):
    try:
        act()
    except Exception:
        return
    found.append(name)

def connect():
    socket.create_connection(("127.0.0.1", {port}), timeout=2)

attempt("secret", lambda: open({secret!r}).read())
attempt("write", lambda: open({outside!r}, "w"))
attempt("connect", connect)
attempt("home", lambda: os.listdir({home!r}))
attempt("shell", lambda: subprocess.run(["cat", {secret!r}], check=True))
attempt("environment", lambda: os.environ["OPENAI_API_KEY"])
open_files = [os.readlink(f"/proc/self/fd/{{n}}") for n in range(64) if os.path.exists(f"/proc/self/fd/{{n}}")]
attempt("descriptors", lambda: open_files.index({secret!r}))
raise RuntimeError("found " + repr(found))
"""


def test_an_operator_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile one reaches nothing; the same judge then proves a kernel of an honest one."""
    monkeypatch.setenv("OPENAI_API_KEY", "canary")
    (tmp_path / "secret").write_text("canary")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        (tmp_path / "secret").open(),
        LocalExecutor("cpu", foreign=True) as executor,
    ):
        places = {"secret": str(tmp_path / "secret"), "outside": str(tmp_path / "written")}
        text = HOSTILE.format(port=server.getsockname()[1], home=str(tmp_path), **places)
        with pytest.raises(OperatorError, match=r"found \[\]"):
            executor.describe(OperatorRef(path="op.py", text=text))
        assert not (tmp_path / "written").exists()
        ref = OperatorRef(path="op.py", text=kernels.OPERATOR)
        job = Job(operator=ref, target="cpu", source=kernels.FAST, seed=1, bench=False, checked=False)
        verdict = executor.evaluate(job)
        assert verdict.outcome is Outcome.PASSED, verdict.message


def test_an_operator_from_elsewhere_gets_no_accelerator() -> None:
    with (
        LocalExecutor("nvidia-h200", foreign=True) as executor,
        pytest.raises(UsageError, match="judged without any device, and nvidia-h200 is one"),
    ):
        executor.describe(OperatorRef(path="op.py", text=kernels.OPERATOR))
