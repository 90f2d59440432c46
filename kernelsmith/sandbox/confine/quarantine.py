"""A whole judge confined for good, because the operator file that it is to load came from elsewhere.

Invariant: what returns from `enter` sees the system, the interpreter, this package and an empty scratch folder, and
nothing else of the user's; it has no network and no secret, it cannot touch another process, and it ends, with all that
it started, when the one who holds the other end of its channel goes away or when it takes too much memory. Its keeper,
the process that `enter` was called in, sees to that and outlives it. It can still start a zygote, whose own confinement
lies inside. Its time on the processor is not bounded, for who holds the channel ends it. Called by
evaluate/quarantined.py in a process of one thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

from kernelsmith.errors import SandboxError
from kernelsmith.sandbox import machine, usage
from kernelsmith.sandbox.confine import confine, entry, landlock, linux, seccomp, view
from kernelsmith.sandbox.limits import Layer

SCRATCH_OPTIONS = "size=4g,nr_inodes=1m,mode=700"
"""Of the tmpfs that holds compilers' caches and the operator file: bounds, not reservations."""
MOST_PROCESSES = 4096
"""Threads counted; a judge with its zygote and candidates stays below 200."""
GRACE_SECONDS = 5.0
"""For a judge to end by itself once its channel is closed."""
DEATH_SECONDS = 10.0
"""For a killed tree to be gone: a process that waits for a device may not die before that comes back."""
LOG_BYTES = 1 << 20
"""Of what the judge prints; the rest is dropped."""
MEMORY_SHARE = 0.8
"""Of the machine's memory, for the judge and all that it starts. Admission, which reserves 1.25 times what evaluations
take, keeps an honest one below that."""
LOOK_SECONDS = 0.25
"""Between two looks of the keeper: a process can touch a gigabyte meanwhile."""
_READ = 1 << 16  # what a pipe holds


@dataclass(frozen=True)
class Plan:
    """What the executor asks for."""

    base: str
    """An empty folder: where the view is mounted, or the scratch itself where nothing can be mounted."""
    readable: tuple[str, ...]
    """More folders to be seen, such as that of the target files."""
    without: tuple[Layer, ...] = ()
    unsafe: bool = False
    """Go on where neither way of confinement holds."""
    memory_bytes: int | None = None
    """What the judge and all that it starts may take; `MEMORY_SHARE` if it is not said."""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, payload: bytes) -> Plan:
        """The inverse of `encode`."""
        values = json.loads(payload)
        without = tuple(Layer(name) for name in values["without"])
        return cls(values["base"], tuple(values["readable"]), without, values["unsafe"], values["memory_bytes"])


def enter(plan: Plan, package: str, channel_fd: int) -> str:
    """Give everything up and return, in a fork of this process, the folder that may be written.

    Raises SandboxError where this machine can confine a judge neither way.
    """
    paths = view.needed(package, plan.readable)
    why = "left out on request"
    if Layer.NAMESPACES not in plan.without:
        try:
            entry.in_fork(lambda: _rehearse(plan.base, paths))
        except OSError as error:
            why = str(error)
        else:
            return _enter_namespaces(plan, paths, channel_fd)
    abi = 0 if Layer.LANDLOCK in plan.without else landlock.abi()
    if abi >= landlock.SCOPED_ABI and seccomp.available():
        return _enter_plain(plan, package, paths, abi, channel_fd)
    if plan.unsafe:
        return plan.base
    raise SandboxError(
        f"an operator file from elsewhere cannot be confined here (namespaces: {why}; Landlock: version {abi})",
        "allow user namespaces, or use Linux 6.12 or newer; if you trust the file, name it on the command line",
    )


def _rehearse(base: str, paths: view.Paths) -> str:
    """The whole way in a throwaway fork: some machines let one begin and then refuse."""
    entry.enter_namespaces(base, paths, entry.NETWORK)
    return entry.in_fork(_settle)


def _enter_namespaces(plan: Plan, paths: view.Paths, channel_fd: int) -> str:
    entry.enter_namespaces(plan.base, paths, entry.NETWORK)
    _fork_and_keep(plan, channel_fd, view.SCRATCH)  # process 1: its end is that of all it started
    _settle()
    _filter(own_namespaces=True)
    return view.SCRATCH


def _settle() -> str:
    """As process 1: mounts of its own, then no capability. Landlock would forbid a zygote below to mount."""
    flags = linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("tmpfs", view.SCRATCH, "tmpfs", flags, SCRATCH_OPTIONS)
    linux.unshare(linux.CLONE_NEWNS)  # the keeper goes on to see all processes, by numbers that it knows
    # Writable, or no user namespace below could be mapped; what it shows is this pid namespace alone.
    linux.mount("proc", "/proc", "proc", flags | linux.MS_NOEXEC)
    _give_up(MOST_PROCESSES)
    return view.SCRATCH


def _enter_plain(plan: Plan, package: str, paths: view.Paths, abi: int, channel_fd: int) -> str:
    """Landlock and a filter alone. What leaves its session still descends from the keeper, which adopts orphans."""
    entry.leave_root(plan.base)
    entry.check_reachable(package)
    linux.become_subreaper()
    _fork_and_keep(plan, channel_fd, plan.base)
    _give_up(MOST_PROCESSES + confine.tasks_of(os.getuid()))
    # Landlock itself keeps other processes' memory and environment from us, whatever /proc lists.
    landlock.restrict(abi, read=(*paths.read, "/proc"), write=[plan.base], devices=paths.devices)
    _filter(own_namespaces=False)
    return plan.base


def _give_up(processes: int) -> None:
    with contextlib.suppress(OSError):  # a wish: where memory is short, this process goes first
        Path("/proc/self/oom_score_adj").write_text("500")
    confine.lower_limit(resource.RLIMIT_CORE, confine.CORE_BYTES)
    confine.lower_limit(resource.RLIMIT_NPROC, processes)
    linux.drop_capabilities()
    linux.no_new_privileges()


def _filter(*, own_namespaces: bool) -> None:
    """The filter of a candidate, but for what it takes to start and confine a zygote."""
    needs = seccomp.Needs(own_mounts=own_namespaces, own_pids=True, hidden_memory=True, zygotes=True)
    linux.load_seccomp(seccomp.program(needs))


def _fork_and_keep(plan: Plan, channel_fd: int, scratch: str) -> None:
    """Return in a fork whose output goes to the present process; that one stays as its keeper and never returns.

    It removes `scratch` in the end where that is no mount, for the controller may be gone by then.
    """
    reader, writer = os.pipe()
    if pid := os.fork():
        os.close(writer)
        try:
            _keep(pid, plan, scratch, channel_fd, reader)
        except BaseException:  # noqa: BLE001 - whatever ends the watch ends the judge
            traceback.print_exc()
        finally:
            _end(pid, plan.base if scratch == plan.base else None)
    os.close(reader)
    for stream in (1, 2):
        os.dup2(writer, stream)
    os.close(writer)
    linux.die_with_parent()


def _keep(pid: int, plan: Plan, scratch: str, channel_fd: int, output: int) -> None:
    """Pass on what the judge prints, within bounds, until it ends, takes too much, or has had its time after the
    channel closed."""
    most = plan.memory_bytes or int(MEMORY_SHARE * machine.total_bytes())
    pidfd, left, deadline = os.pidfd_open(pid), LOG_BYTES, None
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(output, select.POLLIN)
    poll.register(channel_fd, select.POLLRDHUP)
    while deadline is None or time.monotonic() < deadline:
        ready = dict(poll.poll(LOOK_SECONDS * 1000))
        if output in ready:
            data = os.read(output, _READ)
            _print(data[:left])
            left = max(0, left - len(data))
            if not data:
                poll.unregister(output)
        if pidfd in ready:
            return  # all that it had printed fitted into that; its daemons may go on for ever
        if channel_fd in ready:
            poll.unregister(channel_fd)
            deadline = time.monotonic() + GRACE_SECONDS
        if (used := _used(scratch, most, mounted=scratch != plan.base)) > most:
            _print(f"\nthe judge took {used >> 20} MiB of memory, where {most >> 20} MiB are allowed\n".encode())
            return


def _print(text: bytes) -> None:
    with contextlib.suppress(OSError):  # a full disk, or nobody reads it: it is lost
        os.write(1, text)


def _used(scratch: str, most: int, *, mounted: bool) -> int:
    """Bytes of memory of all that descends from the keeper, with what lies in a scratch that is `mounted`."""
    pids, disk = usage.descendants(os.getpid()), os.statvfs(scratch)
    files = (disk.f_blocks - disk.f_bfree) * disk.f_frsize if mounted else 0
    return files + usage.memory(pids, usage.held(pids, Path(scratch).stat().st_dev, most), most)


def _end(pid: int, folder: str | None) -> NoReturn:
    """Kill the judge and everything that descends from it, whatever new sessions it opened, and end with it."""
    try:
        deadline = time.monotonic() + DEATH_SECONDS
        os.kill(pid, signal.SIGKILL)
        while (rest := usage.descendants(os.getpid())) and time.monotonic() < deadline:
            for other in rest:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(other, signal.SIGKILL)
            # process 1 of a pid namespace can be collected once nothing else is left in it
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.001)
        if rest:
            _print(f"\nprocesses that do not die: {rest}\n".encode())
        if folder is not None:
            usage.remove_tree(folder)
    finally:
        os._exit(0)
