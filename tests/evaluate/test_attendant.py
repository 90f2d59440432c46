"""A card's memory seen from outside, by a command that stands in for the driver's; children and their ends are real."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kernelsmith import targets
from kernelsmith.devices import health
from kernelsmith.devices.cards import Card
from kernelsmith.devices.health import NvidiaSmi, Use, health_of
from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate.room import attendant
from kernelsmith.evaluate.room.attendant import Attendant
from kernelsmith.sandbox.children.zygote import ChildEnded
from kernelsmith.sandbox.limits import Ending
from tests.sandbox.zygotes import SMALL, ask, light_zygote
from tests.waiting import until

CARD = Card("cuda:3", 3, "/dev/nvidia3")


class Smi:
    """An `nvidia-smi` that says what is written into a file."""

    def __init__(self, folder: Path) -> None:
        self._says = folder / "says"
        self._command = folder / "nvidia-smi"
        self.answer("")

    def answer(self, text: str) -> None:
        self._says.write_text(text)
        self._script(f'test "$2" = 3 && exec cat {self._says}')

    def hang(self) -> None:
        self._script("exec sleep 600")

    def fail(self) -> None:
        self._script("echo 'Unable to determine the device handle: Unknown Error'; exit 9")

    def _script(self, body: str) -> None:
        fresh = self._command.with_suffix(".new")
        fresh.write_text(f"#!/bin/sh\n{body}\n")
        fresh.chmod(0o755)
        fresh.replace(self._command)


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name, value in {"PERIOD_SECONDS": 0.05, "NOTED_AFTER": 0.1, "UNWELL_AFTER": 0.4}.items():
        monkeypatch.setattr(attendant, name, value)
    monkeypatch.setattr(health, "QUERY_SECONDS", 0.5)
    return Smi(tmp_path)


def test_what_the_command_says_is_read_and_what_it_cannot_say_is_skipped(smi: Smi) -> None:
    smi.answer("123, 512\n77, [N/A]\n\nNo running processes found\n9, 1\n")
    assert NvidiaSmi().uses(CARD) == (Use(123, 512 << 20), Use(9, 1 << 20))
    smi.fail()
    with pytest.raises(InfrastructureError, match="Unknown Error"):
        NvidiaSmi().uses(CARD)
    smi.hang()
    asking = NvidiaSmi()
    with pytest.raises(InfrastructureError, match="did not answer within"):
        asking.uses(CARD)
    smi.answer("")
    assert until(lambda: asking.uses(CARD) == () and not asking._left), "the one that hung is collected later"


def test_only_a_target_with_a_known_command_is_asked_about(smi: Smi, monkeypatch: pytest.MonkeyPatch) -> None:
    h200 = targets.load("nvidia-h200")
    assert health_of(targets.load("cpu")) is None
    assert isinstance(health_of(h200), NvidiaSmi)
    monkeypatch.setenv("PATH", "/nowhere")
    assert health_of(h200) is None


def test_a_child_that_takes_too_much_of_the_card_is_ended_and_told_so(smi: Smi) -> None:
    looking = Attendant(NvidiaSmi(), CARD)
    with light_zygote() as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        with zygote.spawn("honest_role", limits=SMALL) as other:
            smi.answer(f"{child.pid}, 600\n{child.pid}, 600\n{other.pid}, 900\n")
            with looking.attending({child: 1 << 30, other: 1 << 30}):
                assert until(lambda: child._watched.exit is not None)
                assert ask(other, "ping") == "pong"
        with pytest.raises(ChildEnded) as ended:
            ask(child, "ping")
    assert ended.value.exit.ending is Ending.DEVICE_MEMORY
    looking.close()


def test_what_stays_behind_is_noted_and_then_makes_the_card_unwell(smi: Smi) -> None:
    looking = Attendant(NvidiaSmi(), CARD)
    with light_zygote() as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        smi.answer(f"{child.pid}, 300\n1, 9000\n")
        with looking.attending({child: 1 << 30}):
            assert until(lambda: child.pid in looking._ours)
        assert looking.take_notes() == () and looking.unwell is None
    assert until(lambda: looking.unwell)
    assert looking.unwell is not None and looking.unwell.pid == child.pid
    words = f"cuda:3 still holds 300 MiB for process {child.pid}, which has ended"
    assert looking.take_notes() == (words,), "once, and nothing about processes of others"
    looking.close()


def test_nobody_is_asked_while_something_is_timed(smi: Smi) -> None:
    timing = threading.Event()
    timing.set()
    looking = Attendant(NvidiaSmi(), CARD, timing.is_set)
    with light_zygote() as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        smi.answer(f"{child.pid}, 3000\n")
        with looking.attending({child: 1 << 30}):
            assert ask(child, "ping") == "pong" and not threading.Event().wait(0.3)
            assert ask(child, "ping") == "pong" and not looking._ours
            timing.clear()
            assert until(lambda: child._watched.exit is not None)
    looking.close()


def test_what_goes_in_time_is_not_mentioned(smi: Smi) -> None:
    looking = Attendant(NvidiaSmi(), CARD)
    with light_zygote() as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        smi.answer(f"{child.pid}, 300\n")
        with looking.attending({child: 1 << 30}):
            assert until(lambda: child.pid in looking._ours)
        smi.answer("")
    assert until(lambda: not looking._ours)
    assert looking.take_notes() == () and looking.unwell is None
    looking.close()


def test_a_driver_that_does_not_answer_makes_the_card_unwell(smi: Smi) -> None:
    smi.hang()
    asking = NvidiaSmi()
    looking = Attendant(asking, CARD)
    with light_zygote() as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        with looking.attending({child: 1 << 30}):
            assert until(lambda: looking.unwell)
        assert ask(child, "ping") == "pong", "nobody is ended for it"
    assert looking.unwell is not None and "did not answer" in looking.unwell.why
    looking.close()
    assert until(lambda: all(process.poll() is not None for process in asking._left))
