"""Shared and exclusive use of a device, inside a process and across processes."""

import contextlib
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from kernelsmith.evaluate.check import check
from kernelsmith.evaluate.clock.gate import DeviceGate, Turns
from kernelsmith.evaluate.sessions.session import CandidateFailure


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
        pass
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
    monkeypatch.setattr(check, "time", SimpleNamespace(monotonic=lambda: now[0]))
    checker = check.Checker(None, None, None, None, seed=0, deadline=105.0)
    with checker.excused():
        now[0] += 60
    assert checker.remaining() == 5
    now[0] += 5
    with pytest.raises(CandidateFailure, match="used up"):
        checker.remaining()


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
