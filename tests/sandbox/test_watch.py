"""The thread that watches children: what it cannot do for one of them costs that one, and never the limits of all."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest

from kernelsmith.errors import InfrastructureError
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.children import watch
from kernelsmith.sandbox.children.zygote import ChildEnded, Zygote
from kernelsmith.sandbox.limits import Ending, Limits
from tests.sandbox.zygotes import SMALL, ask, light_zygote
from tests.waiting import until

NO_MORE_FILES = OSError(errno.EMFILE, "Too many open files")


@pytest.fixture
def given() -> Iterator[Zygote]:
    with light_zygote() as opened:
        yield opened


def fails_once(monkeypatch: pytest.MonkeyPatch, owner: object, name: str) -> None:
    original = getattr(owner, name)

    def failing(*arguments: object) -> object:
        monkeypatch.setattr(owner, name, original)
        raise NO_MORE_FILES

    monkeypatch.setattr(owner, name, failing)


@pytest.mark.parametrize(
    ("owner", "name", "role", "act"),
    [
        (usage, "held", "hostile_role", "spin_deaf_to_signals"),
        (watch.Watched, "drain", "honest_role", "out_of_turn"),
        (watch.Watched, "_judge", "honest_role", "out_of_turn"),
    ],
    ids=["while it runs", "while it prints", "at its end"],
)
def test_a_child_that_cannot_be_watched_is_lost_and_the_next_one_held(
    given: Zygote, owner: object, name: str, role: str, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with given.spawn(role, limits=SMALL) as child:
        fails_once(monkeypatch, owner, name)
        with pytest.raises(ChildEnded) as ended:
            ask(child, act)
        assert ended.value.exit.ending is Ending.LOST
        assert ended.value.exit.log.endswith("could not watch it: OSError: [Errno 24] Too many open files\n")
    with given.spawn("honest_role", limits=Limits(seconds=0.2)) as other:
        assert until(lambda: not usage.alive(other.pid)), "though nobody asks for it"
        assert other.kill().ending is Ending.TIMEOUT


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_without_a_watcher_nothing_runs(given: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    with given.spawn("honest_role", limits=SMALL) as child:
        monkeypatch.setattr(watch, "_losing", None)  # a fault of the loop itself
        assert until(lambda: not usage.alive(child.pid))
        assert child.kill().ending is Ending.LOST
    with pytest.raises(InfrastructureError, match="has ended"):
        given.spawn("honest_role", limits=SMALL)
