"""Shared and exclusive use of a device, inside a process and across processes."""

import contextlib
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate.check import check
from kernelsmith.evaluate.clock.gate import DeviceGate, Turns
from kernelsmith.evaluate.sessions import owntime
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.outcome import Outcome, Stage


@pytest.fixture
def lock_home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


def test_many_share_and_one_is_alone(lock_home):
    gate = DeviceGate("cpu")
    inside, most, alone_with = [], [], []
    lock = threading.Lock()
    barrier = threading.Barrier(4, timeout=20)

    def share() -> None:
        barrier.wait()
        for _ in range(50):
            with gate.shared():
                with lock:
                    inside.append(1)
                    most.append(len(inside))
                with lock:
                    inside.pop()

    def alone() -> None:
        barrier.wait()
        for _ in range(20):
            with gate.exclusive():
                alone_with.append(len(inside))

    threads = [threading.Thread(target=t) for t in (share, share, share, alone)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert alone_with == [0] * 20


def test_a_waiting_measurement_is_not_starved(lock_home):
    gate = DeviceGate("cpu")
    order = []
    holding = threading.Event()
    release = threading.Event()

    def first() -> None:
        with gate.shared():
            holding.set()
            release.wait(20)

    def alone() -> None:
        with gate.exclusive():
            order.append("alone")

    def late() -> None:
        with gate.shared():
            order.append("late")

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert holding.wait(20)
    threads.append(threading.Thread(target=alone))
    threads[-1].start()
    while not gate._waiting_alone:
        time.sleep(0.001)
    threads.append(threading.Thread(target=late))
    threads[-1].start()
    release.set()
    for thread in threads:
        thread.join(20)
    assert order == ["alone", "late"]


def test_another_process_is_kept_out(lock_home):
    program = (
        "import fcntl, os, sys\n"
        "fd = os.open(sys.argv[1], os.O_RDWR)\n"
        "try:\n"
        "    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)\n"
        "except BlockingIOError:\n"
        "    sys.exit(7)\n"
    )
    gate = DeviceGate("cpu")
    path = str(gate._path)

    def try_to_share() -> int:
        return subprocess.run([sys.executable, "-c", program, path], check=False, timeout=30).returncode

    with gate.exclusive():
        assert try_to_share() == 7
    with gate.shared():
        assert try_to_share() == 0
    assert try_to_share() == 0


@pytest.mark.parametrize("turn", ["shared", "exclusive"])
def test_a_turn_tells_the_queue_from_what_follows(lock_home, turn):
    told = []

    @contextlib.contextmanager
    def waiting():
        told.append("queues")
        yield
        told.append("enters")

    gate = DeviceGate("cpu")
    with getattr(Turns(gate, waiting), turn)():
        assert told == ["queues", "enters"]
    with gate.exclusive():
        pass  # it was left again


def test_what_is_not_the_candidates_doing_is_not_its_time(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(owntime, "time", SimpleNamespace(monotonic=lambda: now[0]))
    checker = check.Checker(None, None, None, None, seed=0, time=OwnTime(5))
    with checker.excused():
        now[0] += 20
        with checker.excused():  # its other thread waits as well: what passes once is excused once
            now[0] += 40
            assert checker.remaining() == 5
    assert checker.remaining() == 5
    now[0] += 5
    with pytest.raises(CandidateFailure, match="used up"):
        checker.remaining()


class Restless:
    """A process that cannot be stopped, or one that can."""

    def __init__(self, *, dodges: bool) -> None:
        self.dodges = dodges
        self.rested = 0

    def wake(self) -> None:
        pass

    def rest(self) -> None:
        self.rested += 1
        if self.dodges:
            raise CandidateFailure(Outcome.SANDBOX_VIOLATION, "cannot be stopped", stage=Stage.BENCH)


def test_that_a_process_cannot_be_stopped_hides_nothing_and_keeps_no_other_awake(lock_home):
    processes = [Restless(dodges=dodges) for dodges in (True, True, False)]
    turns = Turns(DeviceGate("cpu"), contextlib.nullcontext, processes)
    with pytest.raises(InfrastructureError, match="lost"), turns.shared():
        raise InfrastructureError("lost")
    with pytest.raises(CandidateFailure, match="cannot be stopped"), turns.shared():
        pass
    assert [process.rested for process in processes] == [2, 2, 2]


def test_a_measurement_in_another_process_is_not_starved(lock_home):
    """Checks that overlap without a gap would keep the file shared for ever but for the turnstile."""
    program = (
        "import os, sys\n"
        "os.environ['XDG_RUNTIME_DIR'] = sys.argv[1]\n"
        "from kernelsmith.evaluate.clock.gate import DeviceGate\n"
        "print('asking', flush=True)\n"
        "with DeviceGate('cpu').exclusive():\n"
        "    print('alone', flush=True)\n"
    )
    gate, stop = DeviceGate("cpu"), threading.Event()

    def overlapping() -> None:
        while not stop.is_set():
            with gate.shared():
                stop.wait(0.05)

    threads = [threading.Thread(target=overlapping) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        said = subprocess.run(
            [sys.executable, "-c", program, str(lock_home)], check=True, capture_output=True, text=True, timeout=60
        )
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
    assert said.stdout.split() == ["asking", "alone"]
