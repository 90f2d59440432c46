"""How many evaluations work at once: what memory, cores and those who came first allow, and why one waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kernelsmith.evaluate.room import admission
from kernelsmith.evaluate.room.admission import Admission, Place
from kernelsmith.sandbox.machine import total_bytes

GIB = 1 << 30
SPARE = int(admission.SPARE_SHARE * total_bytes())


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(admission, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(admission, "PATIENCE_SECONDS", 0.0)


@dataclass
class Machine:
    """`free` bytes beyond what is spared; `idle` ones more, once they are given up."""

    folder: Path
    free: int = 0
    idle: int = 0

    def door(self, cores: int = 64) -> Admission:
        return Admission(self.folder, cores, [self], free_bytes=lambda: self.free + SPARE)

    def release(self) -> None:
        self.free, self.idle = self.free + self.idle, 0


@dataclass
class User:
    used: int = 0
    peak: int = 0


@dataclass
class Guest:
    """Somebody who asks for a place on a thread of his own, and stays until told to go."""

    enter: Callable[[Callable[[str], None]], AbstractContextManager[Place]]
    heard: list[str] = field(default_factory=list)
    inside: threading.Event = field(default_factory=threading.Event)
    leave: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._visit)
        self._thread.start()

    def _visit(self) -> None:
        with self.enter(self.heard.append):
            self.inside.set()
            self.leave.wait(20)

    def waits(self) -> str:
        """Whatever it hears first, outside."""
        until = time.monotonic() + 20
        while not self.heard and time.monotonic() < until:
            time.sleep(0.005)
        assert not self.inside.is_set()
        return self.heard[0]

    def goes(self) -> None:
        self.leave.set()
        self._thread.join(20)
        assert not self._thread.is_alive()


def guest(door: Admission, needs: int, operator: str = "op") -> Guest:
    return Guest(lambda tell: door.admitted(operator, needs, tell))


@pytest.fixture
def machine(tmp_path) -> Machine:
    return Machine(tmp_path)


def test_memory_that_others_have_reserved_and_not_yet_taken_is_not_free(machine):
    door = machine.door()
    machine.free = 5 * GIB
    with door.admitted("op", 3 * GIB, str) as first:
        second = guest(door, 3 * GIB)
        assert second.waits() == "waits for memory: 2.0 GiB are free, 3.0 GiB needed; 1 other is at work or came first"
        machine.free, first.users = 3 * GIB, [User(used=2 * GIB)]  # of what is left, 1 GiB is still the first one's
        time.sleep(0.05)
        assert not second.inside.is_set()
        machine.free = 4 * GIB
        assert second.inside.wait(20)
        assert second.heard[1:] == [""]
        second.goes()


def test_one_goes_in_whatever_it_needs(machine):
    with machine.door().admitted("op", 100 * GIB, str):
        pass


def test_nobody_overtakes(machine):
    door = machine.door()
    machine.free = 4 * GIB
    first = guest(door, 3 * GIB)
    assert first.inside.wait(20)
    large = guest(door, 3 * GIB)
    large.waits()
    small = guest(door, GIB // 2)
    assert "2 others" in small.waits()
    first.goes()
    assert large.inside.wait(20) and small.inside.wait(20)
    large.goes()
    small.goes()


def test_cores_bound_those_of_one_judge(machine):
    machine.free = 100 * GIB
    door = machine.door(cores=1)
    with door.admitted("op", GIB, str):
        second = guest(door, GIB)
        assert second.waits() == "waits for a core: 1 other is at work or came first, on 1"
        with machine.door(cores=1).admitted("op", GIB, str):
            pass
    assert second.inside.wait(20)
    second.goes()


def test_what_evaluations_of_a_kind_took_is_what_the_next_one_reserves(machine):
    door = machine.door()
    for peak, whole in ((2 * GIB, True), (GIB, True), (50 * GIB, False)):
        with door.admitted("op", 9 * GIB, str) as place:
            place.users, place.whole = [User(peak=peak)], whole
    with door.admitted("op", 9 * GIB, str) as place:
        assert place.ticket.nbytes == admission.HEADROOM * 2 * GIB + admission.BESIDE_BYTES
    with door.admitted("another", 9 * GIB, str) as place:
        assert place.ticket.nbytes == 9 * GIB


def test_idle_memory_is_given_up_before_anybody_waits(machine):
    machine.free, machine.idle = 4 * GIB, 2 * GIB
    door = machine.door()
    with door.admitted("op", 3 * GIB, str):
        assert machine.idle
        with door.admitted("op", 3 * GIB, str):
            assert not machine.idle


def test_places_end_with_an_evaluation_that_fails(machine):
    door = machine.door(cores=1)
    with pytest.raises(ZeroDivisionError), door.admitted("op", GIB, str):
        raise ZeroDivisionError
    with door.admitted("op", GIB, str):
        pass
    assert [path.name for path in (machine.folder / "reservations").iterdir()] == ["lock"]


OTHER_JUDGE = """
import sys, time
from pathlib import Path
from kernelsmith.evaluate.room.admission import Admission
with Admission(Path(sys.argv[1]), 1).admitted("op", 3 << 30, print):
    print("inside", flush=True)
    time.sleep(60)
"""


def test_judges_of_one_host_share_its_memory_and_a_dead_one_has_none(machine):
    machine.free = 5 * GIB
    command = [sys.executable, "-c", OTHER_JUDGE, str(machine.folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "inside\n"
        ours = guest(machine.door(), 3 * GIB)
        assert "2.0 GiB are free, 3.0 GiB needed; 1 other" in ours.waits()
        os.kill(other.pid, signal.SIGKILL)
        assert ours.inside.wait(20)
        ours.goes()
    assert [path.name for path in (machine.folder / "reservations").iterdir()] == ["lock"]


def test_a_judge_that_is_stopped_while_it_decides_stops_no_other_from_leaving(tmp_path):
    machine = Machine(tmp_path, free=4 * GIB)
    door = machine.door()
    first = Guest(lambda tell: door.admitted("kind", GIB, tell))
    assert first.inside.wait(20)
    waiting = Guest(lambda tell: door.admitted("kind", 9 * GIB, tell))
    assert waiting.waits().startswith("waits for memory")
    with door._tickets.deciding():
        first.goes()
        first._thread.join(20)
        assert not first._thread.is_alive()
    machine.free = 99 * GIB
    assert waiting.inside.wait(20)
    waiting.goes()
