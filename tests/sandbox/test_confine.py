"""Layers of confinement one by one: what the filter says, what the view shows, and what happens where a layer lacks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kernelsmith.errors import InfrastructureError
from kernelsmith.sandbox import landlock, view
from kernelsmith.sandbox.limits import Layer, Layers, Limits
from kernelsmith.sandbox.zygote import Zygote
from tests.sandbox.zygotes import ROLES, SMALL, ask, everyones_python, light_zygote

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("layers", "sound"),
    [
        (Layers(landlock_abi=1, seccomp=True), True),
        (Layers(mount_namespace=True, readonly_mounts=True, seccomp=True), True),
        (Layers(mount_namespace=True, seccomp=True), False),
        (Layers(landlock_abi=7, mount_namespace=True, readonly_mounts=True), False),
        (Layers(seccomp=True, user_namespace=True, pid_namespace=True), False),
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


def test_a_checkout_is_not_readable_only_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package, library = tmp_path / "checkout" / "package", tmp_path / "library"
    package.mkdir(parents=True)
    library.mkdir()
    monkeypatch.setattr(sys, "path", [str(package.parent), str(library), *sys.path])
    read = view.needed(str(package), ()).read
    assert str(package) in read
    assert str(library) in read
    assert str(package.parent) not in read


def test_folders_below_a_private_home_are_reachable_and_nothing_beside_them(tmp_path: Path) -> None:
    home = tmp_path / "home"
    roles = home / "roles"
    shutil.copytree(ROLES, roles)
    (home / "secret").write_text("SECRET")
    home.chmod(0o700)
    with Zygote(preload=("json",), path=[str(roles)], readable=[str(home / "roles")]) as zygote:
        if not zygote.layers.mount_namespace:
            pytest.skip("no mount namespaces here")
        with zygote.spawn("hostile_role", limits=SMALL) as child:
            said = ask(child, "secrets", secret=str(home / "secret"), judge=os.getpid())
        assert "No such file" in said["file"]


def run_judge(script: str, *, prefix: tuple[str, ...] = (), python: str = sys.executable) -> dict[str, object]:
    """What a judge of its own prints; `prefix` starts it, as another user for instance."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": "/tmp"}
    done = subprocess.run(
        [*prefix, python, "-c", _JUDGE.format(script=script, roles=ROLES)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


_JUDGE = """
import dataclasses, json, os, pathlib, tempfile
from kernelsmith.sandbox import linux, seccomp, syscalls
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.zygote import Zygote
without = ()
{script}
folder = tempfile.TemporaryDirectory()
secret = pathlib.Path(folder.name, "secret")
secret.write_text("SECRET")
with folder, Zygote(preload=("json",), path=["{roles}"], without=without) as zygote:
    with zygote.spawn("hostile_role", limits=Limits()) as child:
        order = dict(act="secrets", secret=str(secret), judge=os.getpid())
        said = json.loads(child.request(json.dumps(order).encode(), seconds=20).payload)
    with zygote.spawn("honest_role", limits=Limits()) as child:
        built = json.loads(child.request(b'{{"act": "compile_and_load"}}', seconds=20).payload)
    print(json.dumps(dict(dataclasses.asdict(zygote.layers), said=said, built=built)))
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


def check_contained(answer: dict[str, object]) -> None:
    said = answer["said"]
    assert isinstance(said, dict)
    assert {name: result for name, result in said.items() if not result.startswith("denied")} == {}
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


_OLD_LANDLOCK = """
import json, os, sys
from kernelsmith.sandbox import confine, view
from kernelsmith.sandbox.limits import Layers, Limits
package, scratch, parent = sys.argv[1], sys.argv[2], os.getppid()
setup = confine.Setup(package=package, preload=(), warm="", path=(), readable=(), without=(), base=scratch)
layers = Layers(landlock_abi=5, seccomp=True)
confine.confine(confine.World(layers, view.needed(package, ()), setup, b"", None), Limits(), scratch)
def kill(pid):
    try:
        os.kill(pid, 0)
    except PermissionError:
        return "refused"
    return "sent"
print(json.dumps([kill(parent), kill(-1), kill(os.getpid()), kill(0)]))
"""


def test_signals_stay_inside_though_landlock_is_too_old_for_that(tmp_path: Path) -> None:
    if landlock.abi() < 5:
        pytest.skip("Landlock is older still")
    package = str(ROOT / "kernelsmith")
    done = subprocess.run(
        [sys.executable, "-c", _OLD_LANDLOCK, package, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
        start_new_session=True,
        cwd="/",
    )
    assert json.loads(done.stdout) == ["refused", "refused", "sent", "sent"]


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
    setpriv = shutil.which("setpriv")
    if os.getuid() != 0 or setpriv is None:
        pytest.skip("all other tests run as an ordinary user here" if os.getuid() else "no setpriv")
    who = (setpriv, "--reuid", "65533", "--regid", "65533", "--clear-groups")
    answer = run_judge(without, prefix=who, python=everyones_python())
    assert (answer["uid"], answer["other_uid"]) == (65533, False)
    check_contained(answer)


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
            zygote.spawn("honest_role", limits=Limits(processes=1 << 80))
        with zygote.spawn("honest_role", limits=SMALL) as child:
            assert ask(child, "ping") == "pong"
