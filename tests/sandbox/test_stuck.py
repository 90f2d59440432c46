"""Children that SIGKILL does not end, and a zygote that does not answer: nobody waits for ever for either."""

from __future__ import annotations

import os
import signal
import time

import pytest

from kernelsmith.sandbox import usage
from kernelsmith.sandbox.children import process, watch, zygote
from kernelsmith.sandbox.children.zygote import ChildEnded
from kernelsmith.sandbox.limits import Ending
from tests.sandbox.withheld import Withheld
from tests.sandbox.zygotes import MODES, SMALL, ask, light_zygote
from tests.waiting import until


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zygote, "_DEATH_SECONDS", 0.5)
    monkeypatch.setattr(process, "_DEATH_SECONDS", 0.5)
    monkeypatch.setattr(watch, "_CLOSE_SECONDS", 0.5)


@pytest.mark.parametrize("mode", MODES)
def test_a_child_that_does_not_die_is_stuck_and_the_next_one_works(mode: str) -> None:
    with light_zygote(mode) as given:
        child = given.spawn("honest_role", limits=SMALL)
        with Withheld(child.pid):
            end = child.kill()
            assert (end.ending, end.survivor) == (Ending.STUCK, child.pid)
            assert "does not die" in end.describe()
            assert usage.alive(child.pid)
            with given.spawn("honest_role", limits=SMALL) as other:
                assert ask(other, "ping") == "pong"
        assert until(lambda: not usage.alive(child.pid))


def test_one_that_does_not_answer_and_does_not_die_is_stuck_whatever_was_asked() -> None:
    with light_zygote() as given, given.spawn("honest_role", limits=SMALL) as child, Withheld(child.pid):
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(ChildEnded) as caught:
            ask(child, "ping", seconds=0.2)
        assert caught.value.exit.ending is Ending.STUCK


def test_a_descendant_that_does_not_die_is_named() -> None:
    with light_zygote() as given, given.spawn("honest_role", limits=SMALL) as child:
        below = ask(child, "start_sleeper")
        assert below > 1
        (pid,) = usage.descendants(child.pid)
        with Withheld(pid):
            assert child.kill().survivor == pid
        assert until(lambda: not usage.alive(child.pid))


def test_closing_does_not_wait_for_what_does_not_die() -> None:
    given = light_zygote()
    child = given.spawn("honest_role", limits=SMALL)
    with Withheld(child.pid):
        began = time.monotonic()
        given.close()
        assert time.monotonic() - began < SMALL.seconds, "it gave up long before the child could end by itself"
        assert usage.alive(child.pid)
    assert until(lambda: not usage.alive(child.pid))
    child.kill()


@pytest.mark.parametrize("mode", MODES)
def test_a_zygote_that_is_silent_costs_its_children_and_is_replaced(mode: str) -> None:
    with light_zygote(mode) as given:
        child = given.spawn("honest_role", limits=SMALL)
        first = usage.descendants(given.pid)[0]  # without namespaces it is the child
        forks = given.pid if first == child.pid else first
        os.kill(forks, signal.SIGSTOP)
        assert child.kill().ending is Ending.LOST, "the child is dead, only nobody says so"
        assert not usage.alive(child.pid)
        with given.spawn("honest_role", limits=SMALL) as other:
            assert ask(other, "ping") == "pong"
        assert until(lambda: not usage.alive(forks))
