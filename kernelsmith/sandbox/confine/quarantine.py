"""A whole judge confined for good, because the operator file that it is to load came from elsewhere.

Invariant: what returns from `enter` sees the system, the interpreter, this package and an empty scratch folder, and
nothing else of the user's; it has no network and no secret, it cannot touch another process, and it ends, with all that
it started, when the one who holds the other end of its channel goes away. It can still start a zygote, whose own
confinement lies inside. Called by evaluate/quarantined.py in a process of one thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelsmith.errors import SandboxError
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.confine import confine, entry, landlock, linux, seccomp, view
from kernelsmith.sandbox.limits import Layer

SCRATCH_OPTIONS = "size=4g,nr_inodes=1m,mode=700"
"""Of the tmpfs that holds compilers' caches and the operator file: bounds, not reservations."""
MOST_PROCESSES = 4096
"""Threads counted; a judge with its zygote and candidates stays below 200."""
GRACE_SECONDS = 5.0
"""For a judge to end by itself once its channel is closed."""
LOG_BYTES = 1 << 20
"""Of what the judge prints; the rest is dropped."""


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

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, payload: bytes) -> Plan:
        """The inverse of `encode`."""
        values = json.loads(payload)
        without = tuple(Layer(name) for name in values["without"])
        return cls(values["base"], tuple(values["readable"]), without, values["unsafe"])


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
            return _enter_namespaces(plan.base, paths, channel_fd)
    abi = 0 if Layer.LANDLOCK in plan.without else landlock.abi()
    if abi >= landlock.SCOPED_ABI and seccomp.available():
        return _enter_plain(plan.base, package, paths, abi, channel_fd)
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


def _enter_namespaces(base: str, paths: view.Paths, channel_fd: int) -> str:
    entry.enter_namespaces(base, paths, entry.NETWORK)
    _fork_and_keep(channel_fd)  # process 1: its end is that of all it started
    _settle()
    _filter(own_namespaces=True)
    return view.SCRATCH


def _settle() -> str:
    """As process 1: mounts of its own, then no capability. Landlock would forbid a zygote below to mount."""
    flags = linux.MS_NOSUID | linux.MS_NODEV
    linux.mount("tmpfs", view.SCRATCH, "tmpfs", flags, SCRATCH_OPTIONS)
    # Writable, or no user namespace below could be mapped; what it shows is this pid namespace alone.
    linux.mount("proc", "/proc", "proc", flags | linux.MS_NOEXEC)
    _give_up(MOST_PROCESSES)
    return view.SCRATCH


def _enter_plain(base: str, package: str, paths: view.Paths, abi: int, channel_fd: int) -> str:
    """Landlock and a filter alone. What leaves its session still descends from the keeper, which adopts orphans."""
    entry.leave_root(base)
    entry.check_reachable(package)
    linux.become_subreaper()
    _fork_and_keep(channel_fd, scratch=base)
    _give_up(MOST_PROCESSES + confine.tasks_of(os.getuid()))
    # Landlock itself keeps other processes' memory and environment from us, whatever /proc lists.
    landlock.restrict(abi, read=(*paths.read, "/proc"), write=[base], devices=paths.devices)
    _filter(own_namespaces=False)
    return base


def _give_up(processes: int) -> None:
    with contextlib.suppress(OSError):  # a wish: where memory is short, this process goes first
        Path("/proc/self/oom_score_adj").write_text("500")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    linux.drop_capabilities()
    linux.no_new_privileges()


def _filter(*, own_namespaces: bool) -> None:
    """The filter of a candidate, but for what it takes to start and confine a zygote."""
    needs = seccomp.Needs(own_mounts=own_namespaces, own_pids=True, hidden_memory=True, zygotes=True)
    linux.load_seccomp(seccomp.program(needs))


def _fork_and_keep(channel_fd: int, scratch: str | None = None) -> None:
    """Return in a fork whose output goes to the present process; that one stays as its keeper and never returns. It
    removes `scratch` in the end, for the controller may be gone by then."""
    reader, writer = os.pipe()
    if pid := os.fork():
        os.close(writer)
        _keep(pid, channel_fd, reader)
        _end(pid)
        if scratch is not None:
            usage.remove_tree(scratch)
        os._exit(0)
    os.close(reader)
    for stream in (1, 2):
        os.dup2(writer, stream)
    os.close(writer)
    linux.die_with_parent()


def _keep(pid: int, channel_fd: int, output: int) -> None:
    """Pass on what the judge prints, within bounds, until it ends or has had its time after the channel closed."""
    pidfd, left, deadline = os.pidfd_open(pid), LOG_BYTES, float("inf")
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(output, select.POLLIN)
    poll.register(channel_fd, select.POLLRDHUP)
    while time.monotonic() < deadline:
        ready = dict(poll.poll(1000))
        if output in ready:
            data = os.read(output, 1 << 16)
            os.write(1, data[:left])
            left = max(0, left - len(data))
            if not data:
                poll.unregister(output)
        if channel_fd in ready:
            poll.unregister(channel_fd)
            deadline = time.monotonic() + GRACE_SECONDS
        if pidfd in ready and output not in ready:
            return


def _end(pid: int) -> None:
    """Kill the judge and everything that descends from it, whatever new sessions it opened."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)  # process 1 of a pid namespace can be collected once nothing else is left in it
    while rest := usage.descendants(os.getpid()):
        for other in rest:
            with contextlib.suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)
