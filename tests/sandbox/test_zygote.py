"""Starting, talking to and ending confined children; nothing of them is left afterwards."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kernelsmith.errors import InfrastructureError, SandboxError
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.children import zygote as zygotes
from kernelsmith.sandbox.children.zygote import ChildEnded, Zygote
from kernelsmith.sandbox.limits import Ending, Layer, Limits
from kernelsmith.sandbox.roles import BUILT
from kernelsmith.sandbox.wire.memory import Arena
from tests.sandbox.zygotes import MODES, ROLES, SMALL, ask, everyones_python, light_zygote, python_for
from tests.waiting import until


@pytest.fixture(scope="module", autouse=True)
def temporary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A temporary folder of this module's own, which another user may enter, so that leftovers can be counted."""
    tmp_path_factory.getbasetemp()  # pytest's own goes elsewhere
    folder = Path(tempfile.mkdtemp(prefix="zygote-tests-"))
    folder.chmod(0o1777)
    tempfile.tempdir = str(folder)
    yield folder
    tempfile.tempdir = None
    folder.rmdir()


@pytest.fixture(scope="module", params=MODES)
def zygote(request: pytest.FixtureRequest) -> Iterator[Zygote]:
    with light_zygote(request.param, environment={"KERNELSMITH_TEST": "passed on"}) as zygote:
        yield zygote


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))


def zygote_process(zygote: Zygote) -> int:
    """The process that forks: the one below its keeper where it has namespaces of its own."""
    keeper = zygote.pid
    return usage.descendants(keeper)[0] if zygote.layers.private_view else keeper


def test_a_child_finds_itself_in_an_empty_scratch_with_little_else(
    zygote: Zygote, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_API_KEY", "sk-1234")
    with zygote.spawn("honest_role", limits=SMALL) as child:
        facts = ask(child, "facts")
    assert facts["files"] == []
    assert facts["cwd"] == facts["scratch"]
    assert facts["fds"] == [0, 1, 2, 3, 4]  # 4 is the listing itself
    assert facts["threads"] == 1
    assert facts["environment"]["KERNELSMITH_TEST"] == "passed on"
    assert facts["environment"]["KERNELSMITH_THREADS"] == "1"
    assert facts["environment"]["TRITON_CACHE_DIR"].startswith(facts["scratch"])
    assert "sk-1234" not in json.dumps(facts)


def test_the_environment_of_the_judge_stays_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_API_KEY", "sk-1234")
    with light_zygote() as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        assert "sk-1234" not in json.dumps(ask(child, "facts"))


def test_children_compile_run_threads_and_answer_again_and_again(zygote: Zygote) -> None:
    with zygote.spawn("honest_role", limits=SMALL) as child:
        assert ask(child, "compile_and_load") == 3
        assert ask(child, "start_threads", count=6) == 6
        assert [ask(child, "ping", text=str(n)) for n in range(5)] == ["0", "1", "2", "3", "4"]


def test_tensors_cross_in_arenas(zygote: Zygote) -> None:
    with zygote.spawn("honest_role", limits=SMALL) as child, Arena.create(4) as arena:
        arena.buffer[:] = b"\x01\x02\x03\x04"
        assert ask(child, "add_one", fds=(arena.fd,), nbytes=4, private=True) == [2, 3, 4, 5]
        assert arena.buffer[:] == b"\x01\x02\x03\x04"
        assert ask(child, "add_one", fds=(arena.fd,), nbytes=4, private=False) == [2, 3, 4, 5]
        assert arena.buffer[:] == b"\x02\x03\x04\x05"
        assert ask(child, "shrink", fds=(arena.fd,)) == "Operation not permitted"


def test_a_bug_in_a_role_ends_the_child_and_shows_in_its_log(zygote: Zygote) -> None:
    child = zygote.spawn("honest_role", limits=SMALL)
    with pytest.raises(ChildEnded) as caught:
        ask(child, "out_of_turn")
    assert (caught.value.exit.ending, caught.value.exit.status) == (Ending.EXITED, 1)
    assert "a bug in the role\n" in caught.value.exit.log
    assert child.kill() == caught.value.exit


def test_a_role_that_does_not_exist_is_told_by_the_log(zygote: Zygote) -> None:
    for _ in range(20):  # some die before anything can be seen of them
        child = zygote.spawn("no_such_role", limits=SMALL)
        with pytest.raises(ChildEnded) as caught:
            child.request(b"{}", seconds=10)
        assert "No module named 'no_such_role'" in caught.value.exit.log


def test_kill_reports_what_ended_and_leaves_nothing(zygote: Zygote) -> None:
    child = zygote.spawn("honest_role", limits=SMALL)
    elapsed = child.elapsed
    assert 0 < elapsed < child.kill().seconds
    assert child.kill().ending is Ending.KILLED
    assert child.kill().signal == "SIGKILL"
    assert not Path(f"/proc/{child.pid}").exists()


def test_a_request_out_of_time_ends_the_child(zygote: Zygote) -> None:
    child = zygote.spawn("hostile_role", limits=SMALL)
    with pytest.raises(ChildEnded) as caught:
        ask(child, "spin_deaf_to_signals", seconds=0.2)
    assert caught.value.exit.ending is Ending.TIMEOUT


def test_a_child_out_of_time_ends_though_nobody_asks(zygote: Zygote) -> None:
    child = zygote.spawn("honest_role", limits=Limits(seconds=0.2))
    assert until(lambda: not Path(f"/proc/{child.pid}").exists())
    assert child.kill().ending is Ending.TIMEOUT


def test_many_threads_spawn_at_once(zygote: Zygote) -> None:
    def session(number: int) -> str:
        with zygote.spawn("honest_role", limits=SMALL, label=f"child {number}") as child:
            return str(ask(child, "ping", text=str(number)))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(session, range(24))) == [str(number) for number in range(24)]


def test_sixty_children_leave_no_trace(zygote: Zygote) -> None:
    with zygote.spawn("honest_role", limits=SMALL) as child:
        ask(child, "ping")
    processes = usage.descendants(os.getpid())
    server_fds = f"/proc/{zygote_process(zygote)}/fd"

    def traces() -> tuple[int, int, int, list[Path]]:
        files = sorted(Path(tempfile.gettempdir()).glob("*/*"))
        return open_fds(), threading.active_count(), len(os.listdir(server_fds)), files

    gc.collect()  # what other tests dropped is not ours to count
    before = traces()
    for number in range(60):
        with zygote.spawn("honest_role", limits=SMALL) as child:
            if number % 4 == 0:
                ask(child, "ping")
    until(lambda: traces() == before)  # the zygote closes its last descriptor a moment after it reports
    assert traces() == before
    assert usage.descendants(os.getpid()) == processes


@pytest.mark.parametrize("whom", ["zygote", "keeper"])
@pytest.mark.parametrize("mode", MODES)
def test_a_lost_zygote_costs_its_children_and_is_replaced(mode: str, whom: str) -> None:
    with light_zygote(mode) as zygote:
        if whom == "keeper" and not zygote.layers.private_view:
            pytest.skip("no keeper in this mode")
        child = zygote.spawn("honest_role", limits=SMALL)
        lost = zygote.pid if whom == "keeper" else zygote_process(zygote)
        os.kill(lost, signal.SIGKILL)
        assert until(lambda: not usage.alive(lost) and not usage.alive(child.pid))
        with pytest.raises(ChildEnded) as caught:
            ask(child, "ping", seconds=10)
        assert caught.value.exit.ending is Ending.LOST
        with zygote.spawn("honest_role", limits=SMALL) as other:
            assert ask(other, "ping") == "pong"


@pytest.mark.parametrize("mode", MODES)
def test_closing_ends_children_and_removes_every_file(mode: str) -> None:
    before = (open_fds(), os.listdir(tempfile.gettempdir()))
    zygote = light_zygote(mode)
    child = zygote.spawn("honest_role", limits=SMALL)
    zygote.close()
    zygote.close()
    assert child.kill().ending is Ending.KILLED
    assert not usage.descendants(zygote.pid)
    with pytest.raises(ValueError, match="closed"):
        zygote.spawn("honest_role", limits=SMALL)
    assert (open_fds(), os.listdir(tempfile.gettempdir())) == before


_JUDGE = """
import sys, time
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.limits import Limits
python, roles, act, *without = sys.argv[1:]
child = Zygote(python=python, preload=("json",), path=[roles], without=without).spawn("hostile_role", limits=Limits())
child._channel.send(b'{"act": "%s"}' % act.encode())
time.sleep(0.2)
print(flush=True)
time.sleep(100)
"""


@pytest.mark.parametrize("act", ["spin_deaf_to_signals", "fork_and_sleep"])
@pytest.mark.parametrize("mode", MODES)
def test_a_killed_judge_takes_everything_with_it(mode: str, act: str, temporary: Path) -> None:
    judge = subprocess.Popen(
        [sys.executable, "-c", _JUDGE, python_for(mode), ROLES, act, *MODES[mode]],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert judge.stdout is not None
    if not judge.stdout.readline():
        judge.wait()
        pytest.skip("this mode cannot be had here")
    family = usage.descendants(judge.pid)
    assert len(family) >= (5 if act == "fork_and_sleep" else 2)
    judge.kill()
    judge.wait()
    judge.stdout.close()
    assert until(lambda: not any(map(usage.alive, family)))  # who collects them afterwards is not our matter
    assert until(lambda: not os.listdir(temporary))


_EARLY_JUDGE = """
import sys
from kernelsmith.sandbox.children.zygote import Zygote
from tests.sandbox.zygotes import MODES, ROLES
Zygote(python=sys.argv[2], preload=("slow_import",), path=[ROLES], without=MODES[sys.argv[1]])
"""


def names_below(pid: int) -> list[str]:
    found = []
    for other in usage.descendants(pid):
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{other}/comm").read_text().strip())
    return found


@pytest.mark.parametrize("mode", ["full", "without namespaces"])
def test_a_judge_killed_while_its_zygote_gets_ready_leaves_no_folder(mode: str, temporary: Path) -> None:
    judge = subprocess.Popen(
        [sys.executable, "-c", _EARLY_JUDGE, mode, everyones_python()],
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        assert until(lambda: "slow import" in names_below(judge.pid), seconds=60)
        until(lambda: not os.listdir(temporary), seconds=1)  # where it was only mounted on, it goes about now
    finally:
        judge.kill()
        judge.wait()
    assert until(lambda: not os.listdir(temporary), seconds=60)


def test_an_unsound_machine_is_refused_unless_told() -> None:
    nothing = (Layer.NAMESPACES, Layer.LANDLOCK, Layer.SECCOMP)
    options = {"python": everyones_python(), "preload": ("json",), "path": [ROLES], "without": nothing}
    with pytest.raises(SandboxError, match="cannot be confined here"):
        Zygote(**options)
    with Zygote(**options, unsafe=True) as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        assert not zygote.layers.sound
        assert ask(child, "ping") == "pong"


def test_a_zygote_that_cannot_warm_up_says_why() -> None:
    with pytest.raises(SandboxError, match="No module named 'no_such_module'"):
        Zygote(preload=("no_such_module",))
    with pytest.raises(SandboxError, match="2 threads"):
        Zygote(preload=("json", "thread_at_import"), path=[ROLES])
    before = open_fds()
    for python in ("/usr/bin/false", "/no/such/python"):
        with pytest.raises(SandboxError, match="did not start"):
            Zygote(python=python, preload=())
    assert open_fds() == before


def test_a_zygote_that_is_killed_while_it_starts_is_started_again() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)  # the zygote may run as somebody else
        environment = {"KILLED_ONCE": str(folder / "killed")}
        with light_zygote("without namespaces", warm="killed_once.warm", environment=environment) as zygote:
            assert (folder / "killed").exists()
            with zygote.spawn("honest_role", limits=SMALL) as child:
                assert ask(child, "ping") == "pong"


@pytest.mark.parametrize("mode", MODES)
def test_warm_runs_once_before_any_fork_and_no_fork_changes_what_it_left(mode: str) -> None:
    with light_zygote(mode, warm="warm_counter.count") as zygote:
        for _ in range(2):
            with zygote.spawn("warm_counter", limits=SMALL) as child:
                assert child.request(b"", seconds=10).payload == b"1 folder kept 0"


@pytest.mark.parametrize("mode", ["full", "without namespaces"])
def test_what_was_built_before_is_there_to_warm_up_with(mode: str, tmp_path: Path) -> None:
    (tmp_path / "pool.so").write_text("compiled")
    environment = {BUILT: str(tmp_path / "pool.so")}
    with light_zygote(mode, warm="warm_counter.count", environment=environment) as zygote:
        with zygote.spawn("warm_counter", limits=SMALL) as child:
            assert child.request(b"", seconds=10).payload == b"1 folder kept, compiled 0"
        with zygote.spawn("honest_role", limits=SMALL) as child:
            assert BUILT not in ask(child, "facts")["environment"]


def test_torch_and_triton_are_there_at_once_and_threads_work() -> None:
    with Zygote(path=[ROLES]) as zygote, zygote.spawn("honest_role", limits=Limits(threads=2)) as child:
        assert ask(child, "facts")["modules"] == ["torch", "triton"]
        assert ask(child, "tensors", seconds=60) == 1 << 18
        assert zygote.layers.sound


@pytest.mark.parametrize("slow", [False, True], ids=["", "and the zygote is slow to say so"])
@pytest.mark.parametrize(("kills", "ending"), [((0, 0), Ending.SIGNALLED), ((0, 1), Ending.LOST)])
def test_whoever_the_kernel_kills_is_not_to_blame(
    kills: tuple[int, int], ending: Ending, slow: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygotes, "_GRACE_SECONDS", 0.1)
    with light_zygote() as zygote:
        counts = iter(kills)
        monkeypatch.setattr(usage, "kills_for_memory", lambda: next(counts))
        with zygote.spawn("honest_role", limits=SMALL) as child:
            forks = zygote_process(zygote)
            if slow:
                os.kill(forks, signal.SIGSTOP)
                threading.Timer(0.5, os.kill, (forks, signal.SIGCONT)).start()
            os.kill(child.pid, signal.SIGKILL)
            with pytest.raises(ChildEnded) as ended:
                ask(child, "ping")
        assert ended.value.exit.ending is ending


def test_a_fork_that_the_machine_refuses_costs_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    with Zygote(python=everyones_python(), preload=("second_fork_refused",), path=[ROLES]) as zygote:
        with zygote.spawn("honest_role", limits=SMALL) as child:
            with pytest.raises(InfrastructureError, match=r"could not start a child: .* temporarily"):
                zygote.spawn("honest_role", limits=SMALL)
            assert ask(child, "ping") == "pong"
        with zygote.spawn("honest_role", limits=SMALL) as child:
            assert ask(child, "ping") == "pong"


@pytest.mark.parametrize("mode", ["full", "without namespaces"])
def test_a_child_that_cannot_be_seen_leaves_nothing(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with light_zygote(mode) as zygote:
        gc.collect()
        before = (open_fds(), sorted(Path(tempfile.gettempdir()).glob("*/*")))
        with monkeypatch.context() as patched:
            patched.setattr(usage, "mapped", lambda pids: usage.Mapped(0, 0))
            patched.setattr(zygotes, "ends_within", lambda pidfd, seconds: False)
            with pytest.raises(InfrastructureError, match="hidepid"):
                zygote.spawn("honest_role", limits=SMALL)
        assert (open_fds(), sorted(Path(tempfile.gettempdir()).glob("*/*"))) == before
