"""The hostile set against the machine: every act with all layers, and with one of them left out, by turns.

`kernelsmith doctor --sandbox` and benchmarks/drill.py run all of it in every mode. What does not hold is noticed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kernelsmith.diagnosis import DrillFault
from kernelsmith.drill import audit, catalog
from kernelsmith.drill.catalog import Act
from kernelsmith.drill.drill import FULL, MODES
from kernelsmith.drill.perform import perform
from kernelsmith.drill.role import ROLE
from kernelsmith.drill.world import World
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Ending, Layer
from tests.sandbox.zygotes import alone_of_its_user, everyones_python, light_zygote

ACTS = {act.name: act for act in catalog.acts()}
REDUCED = tuple(mode for mode in MODES if mode != FULL)


@contextmanager
def scene(mode: str) -> Iterator[tuple[World, Zygote]]:
    with World() as world, light_zygote(mode) as zygote, world.around(zygote), alone_of_its_user(zygote):
        yield world, zygote


@pytest.fixture(scope="module")
def full() -> Iterator[tuple[World, Zygote]]:
    with scene(FULL) as found:
        yield found


@pytest.mark.parametrize("name", ACTS)
def test_it_is_held_and_its_twin_is_served(full: tuple[World, Zygote], name: str) -> None:
    assert perform(ACTS[name], *full, FULL).breaches == ()


@pytest.mark.parametrize(("first", "mode"), [*enumerate(REDUCED)])
def test_they_are_held_with_a_layer_less(first: int, mode: str) -> None:
    """Each act with one of the layers left out, for time's sake."""
    with scene(mode) as (world, zygote):
        results = [perform(act, world, zygote, mode) for act in [*ACTS.values()][first :: len(REDUCED)]]
    assert {result.name: result.breaches for result in results if result.breaches} == {}


def test_every_program_says_what_it_tries_and_what_must_hold() -> None:
    programs = [*ACTS.values(), *catalog.cheats()]
    assert len(programs) >= 27 + 9 + 30
    assert [one.name for one in programs if len(one.about) < 30 or not one.about.endswith(".")] == []
    assert len({one.name for one in programs}) == len(programs)
    assert all("def twin(" in act.source for act in ACTS.values())
    assert all("def cheat(" in cheat.source and "def cheat(" not in cheat.twin for cheat in catalog.cheats())


def test_every_ending_can_be_told() -> None:
    assert {ending.value for ending in Ending} <= {ended.value for ended in catalog.Ended}


UNCONFINED = {
    "read_secrets": {"read a file outside", "listed a folder outside"},
    "network": {"reached the tcp listener", "reached the udp listener", "reached the unix listener"},
    "hard_links": {"changed 'canary' outside"},
    "limits_of_others": {"the victim: limits changed"},
    "signals": {"the victim: state changed"},
}
"""Where nothing confines a program, what is to be seen of it."""


@pytest.fixture(scope="module")
def open_field() -> Iterator[Zygote]:
    layers = (Layer.NAMESPACES, Layer.LANDLOCK, Layer.SECCOMP)
    with Zygote(python=everyones_python(), preload=(ROLE,), without=layers, unsafe=True) as zygote:
        yield zygote


@pytest.mark.parametrize("name", UNCONFINED)
def test_what_does_not_hold_is_noticed(open_field: Zygote, name: str) -> None:
    with World() as world, world.around(open_field):
        breaches = perform(ACTS[name], world, open_field, "open").breaches
    escapes = {breach.what for breach in breaches if breach.fault is DrillFault.ESCAPE}
    assert UNCONFINED[name] <= escapes, breaches


SURVIVES = '''"""Leaves a process."""
import os, time
def act(stage):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 100)
            time.sleep(3)
        os._exit(0)
    os.wait()
def twin(stage):
    raise OSError("refused")
'''


def test_survivors_wrong_ends_and_refused_twins_are_noticed(open_field: Zygote) -> None:
    act = Act("survives", "", SURVIVES, frozenset({catalog.Ended.MEMORY}), 10.0)
    with World() as world, world.around(open_field):
        result = perform(act, world, open_field, "open")
    assert {breach.fault for breach in result.breaches} >= {
        DrillFault.SURVIVOR,
        DrillFault.ESCAPE,
        DrillFault.HONEST_REFUSED,
    }
    assert result.ended == "answered"


def test_what_cannot_be_looked_at_is_a_change() -> None:
    with World() as world:
        (world.folder / "canary").write_text("alive")
        before = audit._files(world.folder)
        (world.folder / "canary").write_bytes(b"\xff\xfe")
        os.mkfifo(world.folder / "sub" / "made")
        assert audit._files(world.folder).keys() ^ before.keys() == {"made"}
        assert audit._files(world.folder)["canary"] != before["canary"]


def test_a_world_that_cannot_be_made_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world, environment = World(), dict(os.environ)
    monkeypatch.setattr(socket, "create_server", None)
    with pytest.raises(TypeError), world:
        pass
    assert not world.folder.exists() and dict(os.environ) == environment
