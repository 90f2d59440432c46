"""Layers of confinement one by one: what the filter says, what the view shows, and what happens where a layer lacks."""

from __future__ import annotations

import errno
import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from kernelsmith.errors import InfrastructureError
from kernelsmith.sandbox import landlock, linux, seccomp, view
from kernelsmith.sandbox.limits import Layer, Layers, Limits
from kernelsmith.sandbox.zygote import Zygote
from tests.sandbox.zygotes import ROLES, SMALL, ask, everyones_python, light_zygote

ROOT = Path(__file__).parents[2]
ALL_PRESENT = seccomp.Needs(readonly_mounts=True, own_pids=True, hidden_memory=True)
NOTHING_ELSE = seccomp.Needs(readonly_mounts=False, own_pids=False, hidden_memory=False, only_signal=1234)
KILL_PROCESS, ALLOW, EPERM = 0x80000000, 0x7FFF0000, 0x50000 | errno.EPERM


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What the kernel's BPF machine would return for a system call."""
    padded = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *[value & (1 << 64) - 1 for value in padded])
    code = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        if operation == 0x06:
            return int(value)
        if operation == 0x20:
            accumulator = struct.unpack_from("=I", data, value)[0]
        elif operation == 0x54:
            accumulator &= value
        else:
            holds = {0x15: accumulator == value, 0x35: accumulator >= value, 0x45: bool(accumulator & value)}[operation]
            at += if_true if holds else if_false


@pytest.mark.parametrize(
    ("machine", "architecture", "calls"),
    [
        (
            "x86_64",
            0xC000003E,
            {"read": 0, "socket": 41, "clone": 56, "kill": 62, "chmod": 90, "setsid": 112, "mmap": 9},
        ),
        (
            "aarch64",
            0xC00000B7,
            {"read": 63, "socket": 198, "clone": 220, "kill": 129, "chmod": 53, "setsid": 157, "mmap": 222},
        ),
    ],
)
def test_the_filter_on_both_machines(
    monkeypatch: pytest.MonkeyPatch, machine: str, architecture: int, calls: dict[str, int]
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    full, plain = seccomp.program(ALL_PRESENT), seccomp.program(NOTHING_ELSE)
    for program in (full, plain):
        assert verdict(program, architecture, calls["read"]) == ALLOW
        assert verdict(program, architecture, calls["socket"], 2, 1, 0) == EPERM
        assert verdict(program, architecture, calls["clone"], 0x10000000 | 17) == EPERM
        assert verdict(program, architecture, calls["clone"], 0x3D0F00) == ALLOW  # a thread, as libc starts it
        assert verdict(program, architecture, 435) == 0x50000 | errno.ENOSYS
        assert verdict(program, 0x40000003, calls["read"]) == KILL_PROCESS  # i386
    assert verdict(full, architecture, calls["chmod"]) == ALLOW
    assert verdict(plain, architecture, calls["chmod"]) == 0x50000  # pretends
    assert verdict(full, architecture, calls["setsid"]) == ALLOW
    assert verdict(plain, architecture, calls["setsid"]) == EPERM
    assert verdict(full, architecture, calls["mmap"], 0, 4096, 3, 0x21) == ALLOW
    assert verdict(plain, architecture, calls["mmap"], 0, 4096, 3, 0x21) == EPERM
    assert verdict(plain, architecture, calls["mmap"], 0, 4096, 3, 0x22) == ALLOW
    assert verdict(full, architecture, calls["kill"], 99) == ALLOW
    assert verdict(plain, architecture, calls["kill"], 99) == EPERM
    assert {verdict(plain, architecture, calls["kill"], pid) for pid in (0, 1234, -1234)} == {ALLOW}
    assert verdict(plain, architecture, calls["kill"], -1) == EPERM


def test_a_machine_without_numbers_has_no_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert not seccomp.available()
    assert landlock.abi() == 0
    with pytest.raises(OSError, match="machine"):
        seccomp.program(ALL_PRESENT)
    with pytest.raises(OSError, match="riscv64"):
        linux.mount_readonly("/")


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
from kernelsmith.sandbox import linux, seccomp
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
code = seccomp._op(0x20, 0)
for number in (272, 308, 165) if linux.machine_index() == 0 else (97, 268, 40):  # unshare, setns, mount
    code += seccomp._if_equal(number, seccomp._refuse(1))
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
