"""Trees of processes that stand still: every thread, every process, even those that resist, and on again."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kernelsmith.sandbox.children import pause
from kernelsmith.sandbox.children.zygote import Child
from kernelsmith.sandbox.usage import descendants
from tests.sandbox.zygotes import MODES, SMALL, ask, light_zygote


def used(pids: list[int]) -> int:
    """Clock ticks of processor time that these processes have had."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(field[11]) + int(field[12]) for field in fields)


def tree(child: Child) -> list[int]:
    return [child.pid, *descendants(child.pid)]


@pytest.mark.parametrize("mode", MODES)
def test_threads_and_processes_that_burn_time_stand_still_and_go_on(mode: str) -> None:
    with light_zygote(mode) as zygote, zygote.spawn("restless_role", limits=SMALL) as child:
        ask(child, "burn", threads=2, processes=2)
        assert len(tree(child)) == 3
        assert child.pause()
        before = used(tree(child))
        time.sleep(0.1)
        assert used(tree(child)) == before
        child.resume()
        assert ask(child, "ping") == "pong"
        deadline = time.monotonic() + 20
        while used(tree(child)) == before and time.monotonic() < deadline:
            time.sleep(0.02)
        assert used(tree(child)) > before


def test_processes_that_wake_each_other_stand_still_too() -> None:
    with light_zygote() as zygote, zygote.spawn("restless_role", limits=SMALL) as child:
        ask(child, "wake_each_other", processes=3)
        assert child.pause()
        before = used(tree(child))
        time.sleep(0.1)
        assert used(tree(child)) == before


def test_a_child_that_has_ended_stands_still() -> None:
    with light_zygote() as zygote, zygote.spawn("restless_role", limits=SMALL) as child:
        child.kill()
        assert child.pause()
        child.resume()


def test_what_dodges_the_stop_is_told() -> None:
    with light_zygote() as zygote, zygote.spawn("restless_role", limits=SMALL) as child:
        ask(child, "ping")
        numbers = iter(range(2**30, 2**31))
        dodging = lambda: [child.pid, next(numbers)]  # noqa: E731 - every look finds another process
        assert not pause.stand_still(dodging, 0.05)
