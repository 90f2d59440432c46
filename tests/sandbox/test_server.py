"""The zygote's process: the interpreters it runs under, and what it takes over from whoever starts it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernelsmith.drill import catalog
from kernelsmith.drill.role import ROLE
from kernelsmith.drill.world import ask as order
from kernelsmith.sandbox.children import server
from kernelsmith.sandbox.children.zygote import Zygote
from tests.sandbox.zygotes import ROLES, SMALL, ask, light_zygote

ROOT = Path(__file__).parents[2]


def interpreters() -> dict[str, str]:
    """Pythons of this machine that are new enough, one of each version."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    found = [*pyenv.glob("3.*/bin/python3"), *Path("/usr/bin").glob("python3.*[0-9]"), Path(sys.executable)]
    versions: dict[str, str] = {}
    for path in found:
        said = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True)
        if not said.returncode and tuple(map(int, said.stdout.split())) >= (3, 11):
            versions.setdefault(".".join(said.stdout.split()), str(path))
    return versions


@pytest.mark.parametrize("python", interpreters().values(), ids=interpreters())
def test_every_python_of_this_machine(python: str) -> None:
    """What runs in forks needs the standard library only; roles bring what else they import."""
    with Zygote(python=python, preload=("json",), path=[ROLES]) as zygote:
        assert zygote.layers.sound
        with zygote.spawn("honest_role", limits=SMALL) as child:
            assert ask(child, "ping") == "pong"
        (calls,) = (act for act in catalog.acts() if act.name == "refused_calls")
        with zygote.spawn(ROLE, limits=SMALL) as child:
            assert order(child, calls.source, "act", {"judge": os.getpid()})["boasts"] == []


_ODD_JUDGE = """
import json, os, resource, signal, sys
for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGUSR1, signal.SIGPIPE, signal.SIGALRM):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGUSR2, signal.SIGCHLD})
os.umask(0o777)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 4096))
resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.RLIM_INFINITY))
os.environ.update(PYTHONPATH="/evil", PYTHONMALLOC="debug", LD_PRELOAD="", MALLOC_PERTURB_="7", GLIBC_TUNABLES="")
from tests.sandbox.zygotes import SMALL, ask, light_zygote
left_open = os.open("/", os.O_RDONLY)
os.set_inheritable(left_open, True)
with light_zygote(sys.argv[1]) as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
    print(json.dumps([ask(child, "inherited"), ask(child, "facts")["fds"], ask(child, "compile_and_load")]))
"""


def inherited(mode: str) -> Any:
    with light_zygote(mode) as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
        return [ask(child, "inherited"), ask(child, "facts")["fds"], ask(child, "compile_and_load")]


@pytest.mark.parametrize("mode", ["full", "without namespaces"])
def test_an_odd_parent_leaves_no_mark_on_candidates(mode: str) -> None:
    done = subprocess.run(
        [shutil.which("nohup") or "env", sys.executable, "-c", _ODD_JUDGE, mode],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert not done.returncode, done.stderr
    odd, plain = json.loads(done.stdout), inherited(mode)
    assert odd == plain
    assert odd[0]["signals"]["SigBlk"] == 0
    assert not odd[0]["terminal"]
    assert odd[0]["variables"] == []
    assert odd[0]["limits"]["CORE"] == [1, 1]


_STREAMLESS = """
import sys
from pathlib import Path
from kernelsmith.__main__ import open_missing_streams
open_missing_streams()
from tests.sandbox.zygotes import SMALL, ask, light_zygote
with light_zygote() as zygote, zygote.spawn("honest_role", limits=SMALL) as child:
    Path(sys.argv[1]).write_text(ask(child, "ping"))
"""


def test_a_caller_without_standard_streams(tmp_path: Path) -> None:
    said = tmp_path / "said"
    command = [sys.executable, "-c", _STREAMLESS, str(said)]
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command]
    subprocess.run(shell, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, timeout=60)
    assert said.read_text() == "pong"


def test_a_child_that_dies_before_it_has_a_group_is_buried() -> None:
    early = subprocess.Popen(["sleep", "60"])
    early.kill()
    assert os.WTERMSIG(server._reap(early.pid, whole_namespace=False)) == signal.SIGKILL
    early.wait()
