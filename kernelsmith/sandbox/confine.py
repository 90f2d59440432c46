"""How a process gives up its powers: once for the zygote (`enter`), then in every candidate's fork (`confine`).

Invariant: what `Layers` claims was rehearsed in a throwaway fork on this machine before a candidate ran, and a layer
that fails later fails the fork instead of weakening it. No root, container runtime or compiled helper is needed.
server.py calls this in the zygote's process, which has one thread and holds no secret.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from kernelsmith.sandbox import landlock, linux, seccomp, usage, view
from kernelsmith.sandbox.limits import SCRATCH_INODES, Layer, Layers, Limits

NOBODY = 65534
_OPEN_FILES = 256  # what passes through sockets counts per user, and must not use up what the judge may pass
_PENDING_SIGNALS = 1024  # timers and queued signals, which count per user
_STACK_BYTES = 8 << 20  # what Linux gives by default, whatever the user's shell says
_PROC_WITHOUT_OTHERS = (
    *("/proc/self", "/proc/thread-self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/devices"),
    *("/proc/modules", "/proc/filesystems", "/proc/driver", "/proc/sys/vm"),
)
_OWN_PROC, _NO_PROC = "own /proc", "no /proc"
NETWORK = linux.CLONE_NEWNET | linux.CLONE_NEWIPC | linux.CLONE_NEWUTS
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


def enter(setup: Setup) -> World:
    """Turn this single-threaded process into the zygote: another user, namespaces, the view; returns in a fork of it
    that is process 1 of its own pid namespace, where namespaces are allowed.

    Raises OSError where this user cannot be left behind.
    """
    paths = view.needed(setup.package, (*setup.path, *setup.readable))
    layers = Layers(
        landlock_abi=0 if Layer.LANDLOCK in setup.without else landlock.abi(),
        seccomp=Layer.SECCOMP not in setup.without and seccomp.available(),
        rlimits=True,
    )
    world = World(layers, paths, setup, b"", None)
    if Layer.NAMESPACES in setup.without:
        return _enter_plain(_noting(world, "namespaces: left out on request"))
    for flags, what in ((NETWORK, "namespaces"), (0, "namespaces without network and ipc")):
        try:
            fresh_proc = in_fork(functools.partial(_rehearse, world, flags)) == _OWN_PROC
        except OSError as error:
            world = _noting(world, f"{what}: {error}")
            continue
        return _isolate(world if fresh_proc else _noting(world, "own /proc: refused here"), flags, fresh_proc)
    return _enter_plain(world)


def keep_warm(world: World) -> None:
    """What was compiled before the first fork is read by all and changed by none, Landlock or not."""
    if world.layers.mount_namespace:
        linux.mount_readonly(view.WARM)


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
    # Before the unshare, the limit would bind all candidates together; without it, it binds the whole user.
    others = 0 if world.layers.user_namespace else tasks_of(os.getuid())
    resource.setrlimit(resource.RLIMIT_NPROC, (limits.processes + others,) * 2)
    linux.drop_capabilities()
    linux.no_new_privileges()
    if world.layers.landlock_abi:
        proc = ("/proc",) if fresh_proc else _PROC_WITHOUT_OTHERS
        read = (*world.paths.read, *proc, world.warm)
        landlock.restrict(world.layers.landlock_abi, read=read, write=[scratch], devices=world.paths.devices)
    if world.layers.seccomp:
        linux.load_seccomp(world.seccomp or _filter(world.layers, world.paths, os.getpid()))
    return fresh_proc


def _filter(layers: Layers, paths: view.Paths, pid: int | None = None) -> bytes:
    """The filter that fits the other layers; empty if it depends on the fork's `pid` and that is not given."""
    signals_stay_inside = layers.pid_namespace or layers.landlock_abi >= 6
    if not layers.seccomp or (not signals_stay_inside and pid is None):
        return b""
    needs = seccomp.Needs(
        readonly_mounts=layers.readonly_mounts,
        own_pids=layers.pid_namespace,
        hidden_memory=paths.accelerators,
        only_signal=None if signals_stay_inside else pid,
    )
    return seccomp.program(needs)


def enter_namespaces(base: str, paths: view.Paths, flags: int) -> bool:
    """New user, mount and pid namespaces (`flags` for more), and the view of `paths`, mounted at `base`, as their root;
    returns whether we were root and are no more. The next fork is process 1."""
    root = os.geteuid() == 0
    if root:  # what is bound as root stays out of reach of every user namespace below
        linux.unshare(linux.CLONE_NEWNS)
        view.build(base, paths)
    changed = leave_root()
    uid, gid = os.getuid(), os.getgid()
    linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS | linux.CLONE_NEWPID | flags)
    for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
        Path(f"/proc/self/{name}").write_text(text)
    if not root:
        view.build(base, paths)
    return changed


def _isolate(world: World, flags: int, fresh_proc: bool) -> World:
    """Enter the namespaces; the caller goes on as process 1 of the new pid namespace, its parent only waits."""
    changed = enter_namespaces(world.setup.base, world.paths, flags)
    if pid := os.fork():
        os.closerange(3, 1 << 20)  # the judge must see the end of its channels when the fork ends
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
    linux.die_with_parent()
    layers = replace(
        world.layers,
        user_namespace=True,
        pid_namespace=True,
        mount_namespace=True,
        network_namespace=bool(flags & linux.CLONE_NEWNET),
        readonly_mounts=True,
        fresh_proc=fresh_proc,
        uid=os.getuid(),
        other_uid=changed,
    )
    # Only process 1 of a pid namespace of its own user namespace may come back to it after unshare(CLONE_NEWPID).
    own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
    linux.mount("tmpfs", view.WARM, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "mode=755")
    return replace(world, layers=layers, pid_namespace=own, seccomp=_filter(layers, world.paths))


def _enter_plain(world: World) -> World:
    """Without namespaces: another user if we are root, and one place that adopts every orphan."""
    if os.geteuid() == 0:
        os.chown(world.setup.base, NOBODY, NOBODY)
    changed = leave_root()
    linux.become_subreaper()
    Path(world.warm).mkdir(exist_ok=True)
    layers = replace(world.layers, uid=os.getuid(), other_uid=changed)
    return replace(world, layers=layers, seccomp=_filter(layers, world.paths))


def leave_root() -> bool:
    """Become nobody for good if we are root: process limits do not bind root, and root's files would be its own."""
    if os.geteuid() != 0:
        return False
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    linux.set_dumpable()
    return True


def _rehearse(world: World, flags: int) -> str:
    """The whole way of a candidate, in a throwaway fork: some machines let one enter namespaces and then refuse."""
    inside = _isolate(world, flags, fresh_proc=False)
    enter_next_pid_namespace(inside)
    confined = in_fork(lambda: _OWN_PROC if confine(inside, Limits(), view.SCRATCH) else _NO_PROC)
    enter_next_pid_namespace(inside)
    return confined


def enter_next_pid_namespace(world: World) -> None:
    """Make the next fork process 1 of a new pid namespace: when it dies, the kernel ends all it started."""
    if world.pid_namespace is not None:
        linux.setns(world.pid_namespace, linux.CLONE_NEWPID)
        linux.unshare(linux.CLONE_NEWPID)


def in_fork(work: Callable[[], str]) -> str:
    """What `work` returns in a fork of this process; raises OSError with its message where it fails or dies."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.write(writer, b"+" + work().encode())
        except BaseException as error:  # noqa: BLE001 - a fork must not go on as its parent
            traceback.print_exc()
            os.write(writer, f"-{error}".encode()[:1000])
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode(errors="replace")
    os.waitpid(pid, 0)
    if not said.startswith("+"):
        raise OSError(said[1:] or "the rehearsal died")
    return said[1:]


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


def _limit_resources(limits: Limits) -> None:
    cpu_seconds = int(limits.seconds * (os.cpu_count() or 1)) + 2  # only for when the judge is stuck
    for kind, value in (
        (resource.RLIMIT_CORE, 1),  # neither a file nor, as 0 would, a dump piped to the machine's crash handler
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_FSIZE, limits.file_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, _PENDING_SIGNALS),
        (resource.RLIMIT_STACK, _STACK_BYTES),
    ):
        _, hard = resource.getrlimit(kind)
        lowest = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (lowest, lowest))


def _move_home(scratch: str, limits: Limits) -> None:
    os.chdir(scratch)
    os.environ.update(dict.fromkeys(HOMES, scratch), USER="candidate", LOGNAME="candidate")
    os.environ["KERNELSMITH_THREADS"] = str(limits.threads)
    tempfile.tempdir = None


def tasks_of(uid: int) -> int:
    """Threads of all processes of a user, for the kernel counts them together."""
    tasks = 0
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):  # it may end while we look
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                tasks += usage.tasks([int(entry.name)])
    return tasks


def _noting(world: World, note: str) -> World:
    return replace(world, layers=replace(world.layers, notes=(*world.layers.notes, *([note] if note else []))))


def check_reachable(*folders: str) -> None:
    """Raise OSError naming one of these or of the interpreter's own folders that the present user cannot read."""
    for folder in (str(Path(os.__file__).parent), *folders, sys.prefix):
        if not os.access(folder, os.R_OK | os.X_OK):
            raise OSError(
                13, f"uid {os.getuid()} cannot read {folder}: move it out of a private home, or allow namespaces"
            )
