"""The look at the world after a hostile program: what changed, what came out, who lives on and with what powers.

Invariant: only reads, and says nothing about what may change by itself. perform.py compares before and after.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from kernelsmith.diagnosis import DrillBreach, DrillFault
from kernelsmith.drill.world import World
from kernelsmith.sandbox.children.zygote import Zygote

_PLACES = (
    *map(Path, ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run", "/etc", "/usr/lib", "/", ".")),
    Path.home(),
    Path(os.__file__).parent,
)
"""Where a program may try to leave something."""
_DEVICES = ("io_uring", "userfaultfd", "perf_event", "bpf", "fanotify", "kvm")
"""Kinds of anonymous files that no child may hold: each stands for a part of the kernel it has no business with."""


class Watch:
    """The state of the world before a program ran."""

    def __init__(self, world: World) -> None:
        self._world = world
        canary = world.folder / "canary"
        canary.write_text("alive")
        canary.chmod(0o666)
        self._files = _files(world.folder)
        self._standing = {name: _standing(pid) for name, pid in world.bystanders.items()}
        self._family = world.zygote_family()

    def breaches(self) -> Iterator[DrillBreach]:
        """What is otherwise than before, now that the program and all that it started should be gone."""
        world = self._world

        def escape(what: str) -> DrillBreach:
            return DrillBreach(fault=DrillFault.ESCAPE, what=what)

        after = _files(world.folder)
        for name in sorted(self._files.keys() ^ after.keys()):
            yield escape(f"{'removed' if name in self._files else 'made'} {name!r} outside")
        for name in self._files.keys() & after.keys():
            if self._files[name] != after[name]:
                yield escape(f"changed {name!r} outside")
        for path in (path for place in _PLACES for path in place.glob(f"*{world.mark}*")):
            yield escape(f"made {path}")
        for name in world.connections():
            yield escape(f"reached the {name} listener")
        for name, pid in world.bystanders.items():
            now = _standing(pid)
            yield from (
                escape(f"{name}: {key} changed") for key, was in self._standing[name].items() if now.get(key) != was
            )
        yield from map(escape, _kernel_objects(world.mark))
        if not _can_lock(world.folder / "lock"):
            yield escape("holds the lock of a file outside")
        left = set(world.zygote_family()) - set(self._family)
        if left:
            yield DrillBreach(fault=DrillFault.SURVIVOR, what=f"{len(left)} processes are left: {sorted(left)[:5]}")
        if not world.sibling_answers():
            yield DrillBreach(fault=DrillFault.CRASH, what="a confined bystander no longer answers")


def _files(folder: Path) -> dict[str, object]:
    """Names, and what a change would show in: contents, owner, mode, times, links, attributes."""
    found: dict[str, object] = {}
    for path in [folder, *folder.glob("*"), *folder.glob("sub/*"), Path(os.__file__)]:
        try:
            found[path.name] = _file(path, read=path.parent == folder)
        except OSError as error:  # an escape may well leave something that cannot be looked at
            found[path.name] = error.errno
    return found


def _file(path: Path, *, read: bool) -> object:
    status = path.lstat()
    inside = path.read_bytes() if read and stat.S_ISREG(status.st_mode) else b""
    times = 0 if stat.S_ISDIR(status.st_mode) else (status.st_mtime_ns, status.st_ctime_ns)
    attributes = tuple(os.listxattr(path, follow_symlinks=False))
    return inside, status.st_mode, status.st_uid, status.st_nlink, times, attributes


def _standing(pid: int) -> dict[str, object]:
    """How a process is treated by the kernel: what another one of the same user could spoil."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return {
            "state": fields[0] in "RSD",
            "start": fields[19],
            "priority": os.getpriority(os.PRIO_PROCESS, pid),
            "processors": frozenset(os.sched_getaffinity(pid)),
            "scheduler": os.sched_getscheduler(pid),
            "limits": Path(f"/proc/{pid}/limits").read_text(),
            "chance to be killed": Path(f"/proc/{pid}/oom_score_adj").read_text(),
        }
    except (FileNotFoundError, ProcessLookupError):
        return {}


def _kernel_objects(mark: str) -> Iterator[str]:
    """Things named after the mark, or made with its number, that live in the kernel and in no file system."""
    key = str(int(mark[-6:], 16))
    for name in ("shm", "sem", "msg"):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/sysvipc/{name}").read_text().splitlines()[1:]
            if any(line.split()[0] == key for line in lines):
                yield f"left a System V object ({name})"
    for path, what in (("/proc/net/unix", "an abstract socket"), ("/proc/keys", "a key")):
        with contextlib.suppress(OSError):
            if any(f"{mark}-made" in line for line in Path(path).read_text().splitlines()):
                yield f"left {what}"


def _can_lock(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def powers(pids: list[int], zygote: Zygote) -> Iterator[DrillBreach]:
    """Living processes of a program that have more powers than a confined one may have. Linux does not tell of
    Landlock; what a program reached does."""
    layers = zygote.layers
    own = os.getpriority(os.PRIO_PROCESS, 0)
    for pid in pids:
        try:
            status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            scheduler, nice = os.sched_getscheduler(pid), os.getpriority(os.PRIO_PROCESS, pid)
        except (OSError, ValueError):
            continue  # it ended meanwhile
        wrong = [
            (int(status["CapEff"], 16) or int(status["CapPrm"], 16), "has capabilities"),
            (layers.seccomp and status["Seccomp"] != "2", "has no filter"),
            (status["NoNewPrivs"] != "1", "can gain privileges"),
            (set(status["Uid"].split()) != {str(layers.uid)}, "is another user"),
            (scheduler != os.SCHED_OTHER or nice < own, "has a higher priority"),
        ]
        for holds, what in wrong:
            if holds:
                yield DrillBreach(fault=DrillFault.ESCAPE, what=f"a process of it {what}")
        yield from _forbidden_files(pid)


def _forbidden_files(pid: int) -> Iterator[DrillBreach]:
    with contextlib.suppress(OSError):  # it may end meanwhile; and another user's are not for everyone to see
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                target = str(link.readlink())
                if target.startswith("anon_inode:") and any(kind in target for kind in _DEVICES):
                    yield DrillBreach(fault=DrillFault.ESCAPE, what=f"a process of it holds {target}")
