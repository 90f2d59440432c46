"""Layers of confinement one by one: what the filter says, what the view shows, and what happens where a layer lacks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Collection
from pathlib import Path

import pydantic
import pytest

from kernelsmith.diagnosis import DrillFault
from kernelsmith.errors import InfrastructureError, SandboxError
from kernelsmith.sandbox.children.zygote import Zygote
from kernelsmith.sandbox.confine import landlock, view
from kernelsmith.sandbox.limits import Layer, Layers, Limits
from tests.sandbox.zygotes import ROLES, SMALL, ask, everyones_python, light_zygote

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("layers", "sound"),
    [
        (Layers(landlock_abi=1, seccomp=True, rlimits=True), True),
        (Layers(mount_namespace=True, readonly_mounts=True, seccomp=True, rlimits=True), True),
        (Layers(mount_namespace=True, seccomp=True, rlimits=True), False),
        (Layers(landlock_abi=7, mount_namespace=True, readonly_mounts=True, rlimits=True), False),
        (Layers(seccomp=True, user_namespace=True, pid_namespace=True, rlimits=True), False),
        (Layers(landlock_abi=7, mount_namespace=True, readonly_mounts=True, seccomp=True), False),
    ],
)
def test_what_is_sound(layers: Layers, sound: bool) -> None:
    assert layers.sound is sound


@pytest.mark.parametrize("name", ["seconds", "memory_bytes", "threads"])
def test_limits_must_be_positive(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Limits(**{name: 0})


def test_the_view_lists_outermost_folders_and_what_links_lead_to(tmp_path: Path) -> None:
    for folder in ("real/inner", "other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    listed = view.outermost(
        str(tmp_path / path) for path in ("link", "real/inner", "other", "other/../other", "absent")
    )
    assert set(listed) >= {str(tmp_path / "link"), str(tmp_path / "other"), str(tmp_path / "real")}
    assert str(tmp_path / "real/inner") not in listed
    assert view.outermost(["/"]) == ()


def test_of_checkouts_only_the_package_and_what_is_preloaded_are_readable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Editable installs add them to the import path, and they may hold anything."""
    package, library, editable = tmp_path / "checkout" / "package", tmp_path / "site-packages", tmp_path / "editable"
    for folder in (package, library, editable / "preloaded", editable / "beside"):
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(package.parent), str(library), str(editable), *sys.path])
    read = view.needed(str(package), (), ("preloaded.part", "json", "no_such_module")).read
    shown = {path for path in read if path.startswith(str(tmp_path))}
    assert shown == {str(package), str(library), str(editable / "preloaded")}


def test_folders_below_a_private_home_are_reachable_and_nothing_beside_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    roles = home / "roles"
    shutil.copytree(ROLES, roles)
    (home / "secret").write_text("SECRET")
    home.chmod(0o700)
    with Zygote(preload=("json",), path=[str(roles)], readable=[str(home / "roles")]) as zygote:
        if not zygote.layers.mount_namespace:
            pytest.skip("no mount namespaces here")
        with zygote.spawn("honest_role", limits=SMALL) as child:
            assert ask(child, "opens", path=str(home / "secret")) == "No such file or directory"


def run_judge(
    script: str, *, prefix: tuple[str, ...] = (), python: str = sys.executable, sources: Path = ROOT
) -> dict[str, object]:
    """What a judge of its own prints; `prefix` starts it, as another user for instance, from `sources`."""
    packages = str(Path(pydantic.__file__).parents[1])  # the drill's records need them, and everyone's Python has none
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(sources), packages)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": "/tmp",
    }
    done = subprocess.run(
        [*prefix, python, "-c", _JUDGE.format(script=script, roles=ROLES)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


_JUDGE = """
import dataclasses, json, os, pathlib
from kernelsmith.drill import catalog
from kernelsmith.drill.perform import perform
from kernelsmith.drill.role import ROLE
from kernelsmith.drill.world import World
from kernelsmith.sandbox.confine import linux, seccomp, syscalls
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.children.zygote import Zygote
without, options = (), dict()
{script}
acts = {{act.name: act for act in catalog.acts()}}
breaches = []
with World() as world, Zygote(preload=(ROLE,), path=["{roles}"], without=without, **options) as zygote:
    with world.around(zygote):
        for name in ("read_secrets", "write_outside", "signals", "refused_calls", "fork_bomb"):
            found = perform(acts[name], world, zygote, "here").breaches
            breaches += [(name, breach.fault.value, breach.what) for breach in found]
    with zygote.spawn("honest_role", limits=Limits()) as child:
        built = json.loads(child.request(b'{{"act": "compile_and_load"}}', seconds=20).payload)
    print(json.dumps(dataclasses.asdict(zygote.layers) | dict(breaches=breaches, built=built)))
"""
_LIKE_DOCKER = """
linux.no_new_privileges()
column = syscalls.machine_index()
code = seccomp._load(0)
for name in "unshare setns mount umount2 pivot_root move_mount open_tree fsopen fsmount mount_setattr".split():
    code += seccomp._if_equal(syscalls.NUMBERS[name][column], seccomp._REFUSE)
code += seccomp._if_equal(syscalls.NUMBERS["clone3"][column], seccomp._ABSENT)
linux.load_seccomp(code + seccomp._ALLOW)
"""
_MASKED_PROC = """
uid, gid = os.getuid(), os.getgid()
linux.unshare(linux.CLONE_NEWNS | (linux.CLONE_NEWUSER if uid else 0))
if uid:
    pathlib.Path("/proc/self/setgroups").write_text("deny")
    pathlib.Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    pathlib.Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
linux.mount("tmpfs", "/proc/fs", "tmpfs", linux.MS_RDONLY)
"""


def check_contained(answer: dict[str, object], coarse: Collection[str] = ()) -> None:
    """No breach; of the programs named `coarse` the honest twin may be refused."""
    breaches = answer["breaches"]
    assert isinstance(breaches, list)
    assert [one for one in breaches if one[1] != DrillFault.HONEST_REFUSED or one[0] not in coarse] == []
    assert answer["built"] == 3


def can_have_namespaces() -> bool:
    with light_zygote() as zygote:
        return zygote.layers.user_namespace


def test_a_container_without_namespaces_falls_back() -> None:
    if not landlock.abi():
        pytest.skip("nothing to fall back to")
    answer = run_judge(_LIKE_DOCKER, python=everyones_python())
    assert not answer["user_namespace"]
    assert answer["landlock_abi"] == landlock.abi()
    assert "namespaces: " in str(answer["notes"])
    check_contained(answer)


@pytest.mark.parametrize("version", [1, 3, 5])
def test_an_older_landlock_alone(version: int) -> None:
    if landlock.abi() < version:
        pytest.skip("Landlock is older still")
    answer = run_judge(
        f"without, options = ('namespaces',), dict(newest_landlock={version})", python=everyones_python()
    )
    assert answer["landlock_abi"] == version
    # Where Landlock is too old, the filter is coarser: no signals to one's own children, no truncation by name.
    coarse = {"signals", *(["write_outside"] if version < landlock.TRUNCATION_ABI else [])}
    check_contained(answer, coarse=coarse)


_OWN_FILES = """
import os, sys
from pathlib import Path
def main(channel, scratch):
    path = channel.receive().payload.decode()
    ways = [lambda: os.open(path, os.O_RDONLY | os.O_TRUNC), lambda: os.open(path, os.O_ACCMODE | os.O_TRUNC)]
    ways += [lambda: os.truncate(path, 0), lambda: os.open(path, os.O_WRONLY), lambda: os.open(path, os.O_ACCMODE)]
    done = []
    for way in ways:
        try:
            done.append(repr(way()))
        except OSError:
            pass
    channel.send(f"{Path(path).read_text()} {done}".encode())
"""


@pytest.mark.parametrize("version", [1, 7])
def test_what_may_be_read_cannot_be_emptied(tmp_path: Path, version: int) -> None:
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as roles:
        Path(roles, "own_files_role.py").write_text(_OWN_FILES)
        Path(folder, "library.py").write_text("whole")
        for path in (folder, roles, f"{folder}/library.py"):
            Path(path).chmod(0o777)  # modes do not protect it
        options = {"preload": ("json",), "python": everyones_python(), "path": [roles], "readable": [folder]}
        zygote = Zygote(without=(Layer.NAMESPACES,), newest_landlock=version, **options)
        with zygote, zygote.spawn("own_files_role", limits=SMALL) as child:
            said = child.request(f"{folder}/library.py".encode(), seconds=10).payload
    assert said == b"whole []"


@pytest.mark.parametrize("without", ["", "without = ('landlock',)"])
def test_a_container_that_masks_proc(without: str) -> None:
    if not can_have_namespaces():
        pytest.skip("no namespaces here")
    answer = run_judge(_MASKED_PROC + without)
    assert answer["pid_namespace"]
    assert not answer["fresh_proc"]
    assert "own /proc" in str(answer["notes"])
    check_contained(answer)


@pytest.mark.parametrize("without", ["", "without = ('namespaces',)", "without = ('landlock',)"])
def test_an_ordinary_user_is_confined_too(without: str) -> None:
    if os.getuid() != 0:
        pytest.skip("all other tests run as an ordinary user here")
    answer = run_judge(without, prefix=as_ordinary_user(), python=everyones_python())
    assert (answer["uid"], answer["other_uid"]) == (65533, False)
    check_contained(answer)


ORDINARY_USER = ("--reuid", "65533", "--regid", "65533", "--clear-groups")


def as_ordinary_user() -> tuple[str, ...]:
    """What to start a program with for it to run as an ordinary user: nothing if we are one."""
    setpriv = shutil.which("setpriv")
    if os.getuid() == 0 and setpriv is None:
        pytest.skip("no setpriv")
    return (str(setpriv), *ORDINARY_USER) if os.getuid() == 0 else ()


_REFUSES = """
linux.no_new_privileges()
column = syscalls.machine_index()
def refuse(name, error):
    return seccomp._if_equal(syscalls.NUMBERS[name][column], seccomp._errno(error))
user = seccomp._load(16) + seccomp._op(seccomp._JUMP_SET, linux.CLONE_NEWUSER, 0, 1) + seccomp._REFUSE + seccomp._ALLOW
"""
# AppArmor as Ubuntu 24.04 sets it up: an ordinary user gets the namespaces, and may do nothing in them.
_LIKE_UBUNTU = (
    _REFUSES
    + """
linux.load_seccomp(seccomp._load(0) + refuse("mount", 13) + refuse("mount_setattr", 13) + seccomp._ALLOW)
"""
)
_NO_USER_NAMESPACES = (
    _REFUSES
    + """
number = syscalls.NUMBERS["unshare"][column]
linux.load_seccomp(seccomp._load(0) + seccomp._if_equal(number, user) + seccomp._ALLOW)
"""
)


def test_namespaces_that_turn_out_to_be_powerless_are_left_alone() -> None:
    answer = run_judge(_LIKE_UBUNTU, prefix=as_ordinary_user(), python=everyones_python())
    assert not answer["user_namespace"] and not answer["mount_namespace"]
    assert "namespaces: [Errno 13] mount " in str(answer["notes"])
    check_contained(answer)


BWRAP = ("bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")


def in_bubblewrap() -> tuple[str, ...]:
    if shutil.which("bwrap") is None or not can_have_namespaces():
        pytest.skip("no bubblewrap here")
    shown = [option for folder in (ROOT, sys.prefix) for option in ("--ro-bind", str(folder), str(folder))]
    return (*BWRAP, *shown)


def test_an_ordinary_user_in_bubblewrap() -> None:
    answer = run_judge("", prefix=(*as_ordinary_user(), *in_bubblewrap()), python=everyones_python())
    assert answer["user_namespace"] and answer["private_view"] and answer["rlimits"]
    check_contained(answer)


def test_a_root_that_can_become_nobody_else_is_refused_because_no_limit_binds_it() -> None:
    if os.getuid() != 0:
        pytest.skip("we are not root")
    script = "import sys; from tests.sandbox.zygotes import *; Zygote(python=sys.argv[1], preload=('json',))"
    done = subprocess.run(
        [*in_bubblewrap(), everyones_python(), "-c", script, everyones_python()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(Path(pytest.__file__).parents[1])))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "cannot be confined here" in done.stderr
    assert "as an ordinary user" in done.stderr


@pytest.mark.parametrize("script", ["", _NO_USER_NAMESPACES], ids=["full", "root's mounts"])
def test_root_with_everything_in_a_private_home(script: str) -> None:
    if os.getuid() != 0:
        pytest.skip("for ordinary users their own home is not private")
    with tempfile.TemporaryDirectory(prefix="home-") as home:
        Path(home).chmod(0o700)
        venv.create(f"{home}/environment", symlinks=True)
        shutil.copytree(ROOT / "kernelsmith", f"{home}/sources/kernelsmith", ignore=shutil.ignore_patterns("*.pyc"))
        Path(home, "notes").write_text("SECRET")
        answer = run_judge(script, python=f"{home}/environment/bin/python", sources=Path(home, "sources"))
        assert answer["other_uid"] and answer["private_view"] and answer["readonly_mounts"]
        assert answer["user_namespace"] is not bool(script)
        check_contained(answer)


def test_root_in_a_private_home_that_nothing_can_show_is_told_what_to_do(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("for ordinary users their own home is not private")
    (tmp_path / "roles").mkdir()
    tmp_path.chmod(0o700)
    with pytest.raises(SandboxError, match=r"user 65534, who cannot read .*allow root to mount"):
        Zygote(python=everyones_python(), preload=(), path=[str(tmp_path / "roles")], without=(Layer.NAMESPACES,))


def test_root_becomes_another_user() -> None:
    if os.getuid() != 0:
        pytest.skip("we are not root")
    for without in ((), (Layer.NAMESPACES,)):
        with Zygote(python=everyones_python(), preload=("json",), without=without) as zygote:
            assert zygote.layers.other_uid
            assert zygote.layers.uid != 0


def test_a_layer_that_fails_later_fails_the_fork() -> None:
    with light_zygote() as zygote:
        with pytest.raises(InfrastructureError, match="could not confine itself: OverflowError"):
            zygote.spawn("honest_role", limits=Limits(file_bytes=1 << 80))
        with zygote.spawn("honest_role", limits=SMALL) as child:
            assert ask(child, "ping") == "pong"
