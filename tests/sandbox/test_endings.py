"""What is kept of a child that came to a bad end: why, by which signal, how much memory, and a log fit to be shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernelsmith.drill import catalog
from kernelsmith.drill.role import ROLE
from kernelsmith.drill.world import ask
from kernelsmith.sandbox.children import process
from kernelsmith.sandbox.children.zygote import ChildEnded, Zygote
from kernelsmith.sandbox.limits import Ending, Exit
from kernelsmith.sandbox.wire.memory import Arena
from tests.sandbox.zygotes import MODES, SMALL, light_zygote

ACTS = {act.name: act for act in catalog.acts()}
HOARD = """
def act(stage):
    while True:
        stage.channel.send(b"[]")
        stage.channel.receive()
"""


@pytest.fixture(scope="module", params=MODES)
def zygote(request: pytest.FixtureRequest) -> Iterator[Zygote]:
    with light_zygote(request.param) as zygote:
        yield zygote


def end_of(zygote: Zygote, act: str) -> Exit:
    with zygote.spawn(ROLE, limits=SMALL) as child, pytest.raises(ChildEnded) as ended:
        ask(child, ACTS[act].source, "act", {})
    return ended.value.exit


def test_memory(zygote: Zygote) -> None:
    end = end_of(zygote, "memory_bomb")
    assert end.ending is Ending.MEMORY and end.peak_bytes > SMALL.memory_bytes


def test_a_flood_leaves_its_tail(zygote: Zygote) -> None:
    end = end_of(zygote, "flood_the_log")
    assert end.ending is Ending.LOG_FLOOD and 0 < len(end.log) <= SMALL.log_bytes


def test_terminal_codes_in_the_log(zygote: Zygote) -> None:
    end = end_of(zygote, "paint_the_log")
    assert (end.ending, end.status) == (Ending.EXITED, 3)
    assert end.log.startswith("before \ufffd31m ") and end.log.endswith("after\n")
    assert not set(end.log) & set("\x1b\r\b\0\a")


def test_a_signal_comes_with_a_trace(zygote: Zygote) -> None:
    end = end_of(zygote, "segfault")
    assert end.signal == "SIGSEGV" and "Fatal Python error" in end.log


def test_arenas_that_are_held_but_not_mapped_are_memory(zygote: Zygote) -> None:
    with zygote.spawn(ROLE, limits=SMALL) as child:
        ask(child, HOARD, "act", {})
        with pytest.raises(ChildEnded) as ended:
            while True:
                with Arena.create(16 << 20) as arena:
                    arena.buffer[:] = bytes(arena.nbytes)
                    child.request(b"[]", [arena.fd], seconds=20)
        assert ended.value.exit.ending is Ending.MEMORY


def test_too_few_open_files_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process.resource, "getrlimit", lambda which: (64, 64))
    assert process._scarce() == "only 64 files may be open here: raise the hard limit (ulimit -n)"
    monkeypatch.setattr(process.resource, "getrlimit", lambda which: (1024, 4096))
    assert process._scarce() == "is memory short?"
