"""How every candidate's fork gives up its powers, given what the zygote's process could enter (entry.py).

Invariant: a layer that `Layers` claims and that fails here fails the fork instead of weakening it. No root, container
runtime or compiled helper is needed. server.py calls it in the fork, entry.py in a rehearsal.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kernelsmith.sandbox import usage
from kernelsmith.sandbox.confine import landlock, linux, seccomp, view
from kernelsmith.sandbox.limits import SCRATCH_INODES, Layer, Layers, Limits

_SIBLINGS = 8
"""Candidates that may use up their number of processes beside this one, where the kernel counts them together."""
CORE_BYTES = 1
"""Neither a file nor, as 0 would, a dump piped to the machine's crash handler (core(5))."""
_OPEN_FILES = 256  # what passes through sockets counts per user, and must not use up what the judge may pass
_PENDING_SIGNALS = 1024  # timers and queued signals, which count per user
_STACK_BYTES = 8 << 20  # what Linux gives by default, whatever the user's shell says
_PROC_WITHOUT_OTHERS = (
    *("/proc/self", "/proc/thread-self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/devices"),
    *("/proc/modules", "/proc/filesystems", "/proc/driver", "/proc/sys/vm"),
)
HOMES = ("HOME", "TMPDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "XDG_CACHE_HOME")


@dataclass(frozen=True)
class Setup:
    """What the judge asks of a new zygote."""

    package: str  # folder of the `kernelsmith` package
    preload: tuple[str, ...]
    warm: str  # "package.module.function", or empty
    path: tuple[str, ...]  # more folders to import from
    readable: tuple[str, ...]  # more files and folders to read, device nodes to use
    without: tuple[Layer, ...]
    newest_landlock: int = landlock.NEWEST  # as if the kernel knew no later version
    base: str = ""  # an empty folder of the judge's: mount point of the view, or home of the scratch folders

    def encode(self) -> bytes:
        """JSON for the server."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, payload: bytes) -> Setup:
        """The inverse of `encode`."""
        values = json.loads(payload)
        lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
        setup = cls(**{**values, **lists})
        return replace(setup, without=tuple(Layer(name) for name in setup.without))


@dataclass(frozen=True)
class World:
    """What every fork needs to confine itself."""

    layers: Layers
    paths: view.Paths
    setup: Setup
    seccomp: bytes  # empty where the filter depends on the fork
    pid_namespace: int | None  # descriptor of the zygote's own, to come back to after each fork

    @property
    def warm(self) -> str:
        """Folder that the zygote may write before it serves, and that its forks may read."""
        return view.WARM if self.layers.mount_namespace else f"{self.setup.base}{view.WARM}"


def confine(world: World, limits: Limits, scratch: str) -> bool:
    """Give up everything but `scratch` and what `world` lists; returns whether /proc is the fork's own.

    Order matters: mounts need the zygote's user namespace; the process count starts anew only in the fork's own.
    """
    with contextlib.suppress(OSError):  # a wish, not a layer
        Path("/proc/self/oom_score_adj").write_text("1000")
    fresh_proc = False
    if world.layers.mount_namespace:
        linux.unshare(linux.CLONE_NEWNS)
        options = f"size={limits.scratch_bytes},nr_inodes={SCRATCH_INODES},mode=700"
        linux.mount("tmpfs", scratch, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)
        fresh_proc = _own_proc(world.layers)
        if world.layers.fresh_proc and not fresh_proc:
            raise OSError(errno.EPERM, "a /proc of its own was refused, though it was granted before")
    _limit_resources(limits)
    _move_home(scratch, limits)
    if world.layers.user_namespace:
        linux.unshare(linux.CLONE_NEWUSER)
    # Before the unshare, the limit would bind all candidates together; without it, it binds the whole user: those who
    # start later must leave room for this one, and watch.py holds each to its own number.
    others = 0 if world.layers.user_namespace else tasks_of(os.getuid()) + _SIBLINGS * limits.processes
    lower_limit(resource.RLIMIT_NPROC, limits.processes + others)
    linux.drop_capabilities()
    linux.no_new_privileges()
    if world.layers.landlock_abi:
        proc = ("/proc",) if fresh_proc else _PROC_WITHOUT_OTHERS
        read = (*world.paths.read, *proc, world.warm)
        landlock.restrict(world.layers.landlock_abi, read=read, write=[scratch], devices=world.paths.devices)
    if world.layers.seccomp:
        linux.load_seccomp(world.seccomp or filter_for(world.layers, world.paths, os.getpid()))
    return fresh_proc


def filter_for(layers: Layers, paths: view.Paths, pid: int | None = None) -> bytes:
    """The filter that fits the other layers; empty if it depends on the fork's `pid` and that is not given."""
    signals_stay_inside = layers.pid_namespace or layers.landlock_abi >= landlock.SCOPED_ABI
    if not layers.seccomp or (not signals_stay_inside and pid is None):
        return b""
    needs = seccomp.Needs(
        own_mounts=layers.mount_namespace,
        old_landlock=layers.landlock_abi < landlock.TRUNCATION_ABI,
        own_pids=layers.pid_namespace,
        hidden_memory=paths.accelerators,
        only_signal=None if signals_stay_inside else pid,
    )
    return seccomp.program(needs)


def _own_proc(layers: Layers) -> bool:
    """Mount a /proc that shows only this pid namespace; refused where the container masks parts of the outer one."""
    flags = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    try:
        linux.mount("proc", "/proc", "proc", flags)
    except OSError:
        if not layers.landlock_abi:  # nothing else would keep the candidate from other processes' entries
            linux.mount("tmpfs", "/proc", "tmpfs", flags)
        return False
    return True


def lower_limit(kind: int, value: int) -> None:
    """Bound a resource for good, by `value` or by what already bounds it."""
    _, hard = resource.getrlimit(kind)
    lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (lowest, lowest))


def _limit_resources(limits: Limits) -> None:
    cpu_seconds = int(limits.seconds * (os.cpu_count() or 1)) + 2  # only for when the judge is stuck
    for kind, value in (
        (resource.RLIMIT_CORE, CORE_BYTES),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, _PENDING_SIGNALS),
        (resource.RLIMIT_STACK, _STACK_BYTES),
    ):
        lower_limit(kind, value)


def _move_home(scratch: str, limits: Limits) -> None:
    os.chdir(scratch)
    os.environ.update(dict.fromkeys(HOMES, scratch), USER="candidate", LOGNAME="candidate")
    os.environ["KERNELSMITH_THREADS"] = str(limits.threads)
    if limits.device_bytes is not None:
        os.environ["KERNELSMITH_DEVICE_BYTES"] = str(limits.device_bytes)
    tempfile.tempdir = None


def tasks_of(uid: int) -> int:
    """Threads of all processes of a user, for the kernel counts them together."""
    tasks = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it may end while we look
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                tasks += usage.tasks([int(entry.name)])
    return tasks
