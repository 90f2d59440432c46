"""The executor's judge: no key reaches it, its death is nobody's verdict, and the next job gets a new one."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from types import SimpleNamespace

import pytest

from kernelsmith import keys, resources
from kernelsmith.devices.marks import own_folder
from kernelsmith.errors import InfrastructureError, OperatorError, SandboxError, UsageError
from kernelsmith.evaluate.room.admission import Tickets
from kernelsmith.execute import local, start
from kernelsmith.execute.local import LocalExecutor
from kernelsmith.execute.wire import Describe, SeedsFound, Waiting
from kernelsmith.model import Job, OperatorRef
from kernelsmith.outcome import Outcome
from kernelsmith.sandbox.wire.protocol import MAX_FRAME

OPERATOR = """
import os
import torch
from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 64)
print("loaded with", sorted(k for k in os.environ if "KEY" in k or "TOKEN" in k))

@operator(x=tensor(N), workloads=[workload(N=8)])
def twice(x):
    return x * 2
"""


@pytest.fixture
def operator(tmp_path) -> OperatorRef:
    path: Path = tmp_path / "op.py"
    path.write_text(OPERATOR)
    return OperatorRef(path=str(path))


@pytest.fixture(scope="module")
def executor():
    """For tests after which its judge lives as before."""
    with LocalExecutor("cpu") as opened:
        yield opened


def test_describe_restart_and_secrets(operator, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-1234")
    monkeypatch.setenv("HF_TOKEN", "hf-canary-1234")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:canary@localhost:9")
    monkeypatch.setenv("CORPORATE", "canary")
    keys.learn("CORPORATE")
    with LocalExecutor("cpu") as executor:
        info = executor.describe(operator)
        assert info.name == "twice"
        judge = executor._judge
        assert judge is not None
        environment = Path(f"/proc/{judge._process.pid}/environ").read_bytes()
        assert b"canary" not in environment
        assert "loaded with []" in judge._tail()

        os.kill(judge._process.pid, signal.SIGKILL)
        judge._process.wait(20)
        while judge.alive:
            pass
        assert executor.describe(operator).name == "twice"
        assert executor._judge is not judge


def test_a_job_in_flight_when_the_judge_dies_is_infrastructure(operator, tmp_path):
    slow = tmp_path / "slow.py"
    slow.write_text("import time\ntime.sleep(600)\n")
    with LocalExecutor("cpu") as executor:
        executor.describe(operator)
        judge = executor._judge
        assert judge is not None
        signal.signal(signal.SIGALRM, lambda *_: os.kill(judge._process.pid, signal.SIGKILL))
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        with pytest.raises(InfrastructureError, match="ended unexpectedly, killed by SIGKILL, as the kernel does"):
            executor.describe(OperatorRef(path=str(slow)))
        judge._process.wait(10)
        judge._reader.join(10)
        late = judge.submit(lambda n: Describe(id=n, operator=operator))
        with pytest.raises(InfrastructureError, match="ended unexpectedly"):
            late.result(10)


def test_a_broken_operator_file_is_the_users_error_with_its_line(tmp_path, executor):
    path = tmp_path / "broken.py"
    path.write_text("import torch\n\nraise RuntimeError('nope')\n")
    with pytest.raises(OperatorError, match=r"broken\.py:3.*nope"):
        executor.describe(OperatorRef(path=str(path)))


def test_a_source_that_no_frame_holds_is_refused_by_its_size_and_the_judge_lives(operator, executor):
    executor.describe(operator)
    judge = executor._judge
    with pytest.raises(UsageError, match=str(MAX_FRAME)):
        executor.evaluate(Job(operator=operator, target="cpu", source="#" * MAX_FRAME, seed=1))
    assert executor.describe(operator).name == "twice"
    assert executor._judge is judge and not judge._waiting


def test_an_answer_that_no_frame_holds_is_told_to_who_waits(operator, tmp_path, executor):
    large = tmp_path / "large.py"
    large.write_text(f"{OPERATOR}__doc__ = '#' * {MAX_FRAME}\n")
    with pytest.raises(InfrastructureError, match=f"ValueError: frame of .*at most {MAX_FRAME}"):
        executor.describe(OperatorRef(path=str(large)))
    assert executor.describe(operator).name == "twice"


def test_an_operator_that_never_loads_is_given_up(tmp_path, monkeypatch):
    (tmp_path / "hangs.py").write_text("import time\nwhile True:\n    time.sleep(1)\n")
    monkeypatch.setattr("kernelsmith.execute.local.LOAD_SECONDS", 0.5)
    with LocalExecutor("cpu") as executor:
        with pytest.raises(OperatorError, match=r"hangs\.py.*had not been loaded after 0\.5 s"):
            executor.describe(OperatorRef(path=str(tmp_path / "hangs.py")))
        assert executor._judge is None


def test_the_judge_finds_a_target_of_the_users_own(operator, tmp_path):
    text = resources.read("targets", "cpu.toml").replace('name = "cpu"', 'name = "mine"')
    (tmp_path / "mine.toml").write_text(text)
    with LocalExecutor("mine", targets=tmp_path) as executor:
        assert executor.describe(operator).name == "twice"


def test_a_listener_that_fails_fails_alone():
    def gone(why: str) -> None:
        raise BrokenPipeError(why)

    judge = object.__new__(local._Judge)
    judge._lock = threading.Lock()
    first, second = Future(), Future()
    judge._waiting = {1: (first, gone), 2: (second, gone)}
    judge._hand_on(Waiting(id=1, why="waits for\x1b[2J memory"))
    judge._hand_on(SeedsFound(id=2, seeds=()))
    judge._hand_on(SeedsFound(id=1, seeds=()))  # for nobody
    with pytest.raises(BrokenPipeError, match=r"waits for.*memory"):
        first.result(0)
    assert second.result(0).id == 2


def test_an_answer_to_another_question_is_no_answer(operator, monkeypatch):
    """A judge in quarantine runs somebody's operator file, which can write on the judge's channel."""
    answer: Future[SeedsFound] = Future()
    answer.set_result(SeedsFound(id=1, seeds=()))
    executor = LocalExecutor("cpu", foreign=True)
    monkeypatch.setattr(executor, "_running", lambda: SimpleNamespace(submit=lambda make, tell: answer))
    with pytest.raises(InfrastructureError, match=r"another kind \(seeds_found\)"):
        executor.describe(operator)


@pytest.mark.parametrize("foreign", [False, True])
def test_an_unknown_target_is_the_users_error_and_leaves_nothing(operator, foreign, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = len(os.listdir("/proc/self/fd"))
    with LocalExecutor("nope", foreign=foreign) as executor, pytest.raises(UsageError, match="unknown target 'nope'"):
        executor.describe(operator)
    assert len(os.listdir("/proc/self/fd")) == before and os.listdir(tmp_path) == ["op.py"]


def test_a_quarantine_that_cannot_be_entered_leaves_nothing(operator, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(start, "BOOT", "print('no judge')")
    before = len(os.listdir("/proc/self/fd"))
    with LocalExecutor("cpu", foreign=True) as executor, pytest.raises(SandboxError, match="did not start"):
        executor.describe(operator)
    assert len(os.listdir("/proc/self/fd")) == before and os.listdir(tmp_path) == ["op.py"]


def test_a_closed_executor_says_so(operator):
    executor = LocalExecutor("cpu")
    executor.close()
    with pytest.raises(InfrastructureError, match="closed"):
        executor.describe(operator)


KERNEL = """
import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, y, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n) * 2, mask=o < n)

def twice(x):
    y = torch.empty_like(x)
    kernel[(1,)](x, y, x.numel(), BLOCK=64)
    return y
"""


def test_whoever_waits_hears_why(operator, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    heard: Queue[str] = Queue()
    with LocalExecutor("cpu") as executor, ThreadPoolExecutor(1) as pool:
        executor.describe(operator)
        hog = Tickets(own_folder() / "reservations").draw(1 << 60)
        hog.work()
        job = Job(operator=operator, target="cpu", source=KERNEL, seed=1, bench=False)
        evaluation = pool.submit(executor.evaluate, job, heard.put)
        assert re.fullmatch(
            r"waits for memory: 0\.0 GiB are free, \d\.\d GiB needed; 1 other is at work or came first",
            heard.get(timeout=60),
        )
        assert not evaluation.done()
        hog.close()
        assert evaluation.result(60).outcome is Outcome.PASSED
        assert heard.get_nowait() == ""
