"""Programs that mean harm, in every mode this machine has: each is contained, and an honest child beside it goes on."""

from __future__ import annotations

import json
import os
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.sandbox import usage
from kernelsmith.sandbox.limits import Ending, Exit
from kernelsmith.sandbox.memory import Arena
from kernelsmith.sandbox.protocol import ProtocolError
from kernelsmith.sandbox.zygote import Child, ChildEnded, Zygote
from tests.sandbox.zygotes import MODES, SMALL, ask, light_zygote


@dataclass
class Scene:
    """A zygote, an honest child that must come to no harm, and what a hostile one would like to reach."""

    zygote: Zygote
    twin: Child
    outside: Path

    @property
    def order(self) -> dict[str, Any]:
        return {
            "judge": os.getpid(),
            "twin": self.twin.pid,
            "zygote": self.zygote.pid,
            "folder": str(self.outside),
            "canary": str(self.outside / "canary"),
            "secret": str(self.outside / "secret"),
        }

    @property
    def tasks_allowed(self) -> int:
        """Without a user namespace, the kernel counts the user's other processes too, which may end meanwhile."""
        return SMALL.processes if self.zygote.layers.user_namespace else 1000

    def commit(self, act: str, **more: Any) -> Any:
        """Let a fresh hostile child do it; its answer, or how it ended."""
        child = self.zygote.spawn("hostile_role", limits=SMALL)
        try:
            return ask(child, act, **{**self.order, **more})
        except ChildEnded as ended:
            return ended.exit
        finally:
            child.kill()

    def refused(self, act: str, **more: Any) -> None:
        """Every attempt must be refused."""
        results = self.commit(act, **more)
        assert isinstance(results, dict)
        assert {name: said for name, said in results.items() if not said.startswith("denied")} == {}

    def ended(self, act: str, *endings: Ending, **more: Any) -> Exit:
        """The child must come to one of these ends."""
        end = self.commit(act, **more)
        assert isinstance(end, Exit), end
        assert end.ending in endings, end
        return end


@pytest.fixture(scope="module", params=MODES)
def running(request: pytest.FixtureRequest) -> Iterator[Scene]:
    with tempfile.TemporaryDirectory() as folder, light_zygote(request.param) as zygote:
        outside = Path(folder)
        outside.chmod(0o777)  # file modes do not protect it
        (outside / "secret").write_text("SECRET")
        (outside / "secret").chmod(0o644)
        with zygote.spawn("honest_role", limits=replace(SMALL, seconds=600)) as twin:
            yield Scene(zygote, twin, outside)


@pytest.fixture
def scene(running: Scene) -> Iterator[Scene]:
    """Afterwards the world outside is as it was, no process is left and the twin still answers."""
    canary = running.outside / "canary"
    canary.write_text("alive")
    canary.chmod(0o666)
    before = canary.stat()
    family = usage.descendants(running.zygote.pid)
    yield running
    after = canary.stat()
    assert canary.read_text() == "alive"
    assert (after.st_mode, after.st_mtime_ns, after.st_uid) == (before.st_mode, before.st_mtime_ns, before.st_uid)
    assert sorted(os.listdir(running.outside)) == ["canary", "secret"]
    assert not os.listxattr(canary)
    assert usage.descendants(running.zygote.pid) == family
    assert ask(running.twin, "ping") == "pong"


def test_network(scene: Scene) -> None:
    path = scene.outside.parent / f"socket-{os.getpid()}"
    abstract = f"kernelsmith-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as named:
        named.bind(str(path))
        path.chmod(0o777)
        named.listen()
        with socket.socket(socket.AF_UNIX) as nameless:
            nameless.bind("\0" + abstract)
            nameless.listen()
            scene.refused("network", port=tcp.getsockname()[1], socket=str(path), abstract=abstract)
            for server in (tcp, named, nameless):
                server.setblocking(False)
                with pytest.raises(BlockingIOError):
                    server.accept()
    path.unlink()


def test_secrets(scene: Scene) -> None:
    scene.refused("secrets")


def test_writing_and_deleting_outside(scene: Scene) -> None:
    mode = Path(os.__file__).stat().st_mode
    scene.refused("write_outside")
    assert Path(os.__file__).stat().st_mode == mode


def test_signals_and_limits_of_others(scene: Scene) -> None:
    scene.refused("signal_everyone")


def test_regaining_powers(scene: Scene) -> None:
    scene.refused("regain_powers")


def test_system_calls_that_nobody_needs(scene: Scene) -> None:
    scene.refused("system_calls")


def test_fork_bomb(scene: Scene) -> None:
    result = scene.commit("fork_bomb")
    if isinstance(result, Exit):
        assert result.ending is Ending.PROCESSES
    else:
        assert 0 < result["forks"] <= scene.tasks_allowed


def test_thread_bomb(scene: Scene) -> None:
    result = scene.commit("thread_bomb")
    if isinstance(result, Exit):
        assert result.ending is Ending.PROCESSES
    else:
        assert 0 < result["threads"] <= scene.tasks_allowed


def test_memory_bomb(scene: Scene) -> None:
    assert scene.ended("memory_bomb", Ending.MEMORY).peak_bytes > SMALL.memory_bytes


def test_memory_bomb_in_many_processes(scene: Scene) -> None:
    assert scene.ended("memory_bomb_in_forks", Ending.MEMORY).peak_bytes > SMALL.memory_bytes


def test_memory_bomb_of_page_tables(scene: Scene) -> None:
    scene.ended("memory_bomb_of_page_tables", Ending.MEMORY)


def test_memory_that_no_resident_size_shows(scene: Scene) -> None:
    if any(Path("/dev").glob("nvidia*")) or Path("/dev/kfd").exists():
        pytest.skip("drivers of accelerators need such memory")
    assert "PermissionError" in scene.ended("memory_bomb_of_shared_pages", Ending.EXITED).log


def test_memory_in_pipes(scene: Scene) -> None:
    scene.ended("memory_in_pipes", Ending.MEMORY)


def test_files_without_a_name_fill_the_disk_too(scene: Scene) -> None:
    scene.ended("memory_in_nameless_files", Ending.DISK)


def test_arenas_that_are_held_but_not_mapped_are_memory(scene: Scene) -> None:
    with scene.zygote.spawn("hostile_role", limits=SMALL) as child:
        child.request(json.dumps({"act": "hoard_arenas"}).encode(), seconds=20)
        with pytest.raises(ChildEnded) as ended:
            while True:
                with Arena.create(16 << 20) as arena:
                    arena.buffer[:] = bytes(arena.nbytes)
                    child.request(b"[]", [arena.fd], seconds=20)
        assert ended.value.exit.ending is Ending.MEMORY


def test_spinning_deaf_to_signals(scene: Scene) -> None:
    scene.ended("spin_deaf_to_signals", Ending.TIMEOUT, seconds=0.3)


def test_stopping_itself(scene: Scene) -> None:
    scene.ended("stop_self", Ending.TIMEOUT, seconds=0.3)


def test_a_daemon_does_not_outlive_its_parent(scene: Scene) -> None:
    assert scene.ended("daemon", Ending.EXITED).status == 0


def test_exit_0_is_an_end_and_no_success(scene: Scene) -> None:
    assert scene.ended("exit_0", Ending.EXITED).status == 0


def test_log_flood(scene: Scene) -> None:
    log = scene.ended("flood_the_log", Ending.LOG_FLOOD).log
    assert 0 < len(log) <= SMALL.log_bytes


def test_terminal_codes_in_the_log(scene: Scene) -> None:
    end = scene.ended("paint_the_log", Ending.EXITED)
    assert (end.status, end.log) == (3, "before \ufffd31m after\n")


def test_full_disk(scene: Scene) -> None:
    scene.ended("fill_the_disk", Ending.DISK)


def test_many_files(scene: Scene) -> None:
    result = scene.commit("many_files", seconds=2)
    assert result == "No space left on device" or result.ending in (Ending.DISK, Ending.TIMEOUT)


def test_one_large_file(scene: Scene) -> None:
    scene.refused("one_large_file")


def test_a_tree_too_deep_to_walk_is_removed(scene: Scene) -> None:
    scene.ended("deep_tree", Ending.EXITED, Ending.DISK)


def test_segfault(scene: Scene) -> None:
    end = scene.ended("segfault", Ending.SIGNALLED)
    assert end.signal == "SIGSEGV"
    assert "Fatal Python error" in end.log


@pytest.mark.parametrize("act", ["huge_frame", "unasked_descriptors"])
def test_breaking_the_protocol(scene: Scene, act: str) -> None:
    with pytest.raises(ProtocolError):
        scene.commit(act)


def test_half_a_frame(scene: Scene) -> None:
    scene.ended("half_a_frame", Ending.EXITED)


def test_hanging_up_and_staying(scene: Scene) -> None:
    scene.ended("silence", Ending.KILLED)
