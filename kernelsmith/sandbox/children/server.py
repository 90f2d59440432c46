"""The zygote's process: imports torch and triton once, then forks a confined child for every request.

Invariant: one thread for ever, no secret, no device context, nothing read from a child. It answers only the judge:
over the control channel it takes requests with a child's channel, log pipe and status channel; over the status channel
it hands back the child's pidfd, and its wait status once the child's whole tree is gone. When the judge closes the
control channel or dies, the zygote ends, and its children with it. Started by zygote.py as `main(fd)`.
"""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from kernelsmith.sandbox import usage
from kernelsmith.sandbox.confine import confine, entry, linux, view
from kernelsmith.sandbox.confine.confine import Setup, World
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.roles import BUILT
from kernelsmith.sandbox.wire.protocol import Channel, Frame, PeerGoneError

_CHANNEL_FD = 3
_PYTHONS_OWN = {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}
"""Those that cannot be changed, and those that every Python ignores."""


def main(fd: int) -> None:
    """Serve the judge at the other end of `fd` until it hangs up."""
    _start_afresh()
    control = Channel(socket.socket(fileno=fd))
    setup = Setup.decode(control.receive().payload)
    built = [Path(name) for name in os.environ.pop(BUILT, "").split(os.pathsep) if name]
    try:
        runtime = {path.name: path.read_bytes() for path in built}
        world = entry.enter(setup)
        entry.check_reachable(setup.package, *setup.path)
        control.send(json.dumps({"mounted": world.layers.mount_namespace}).encode())
        _warm_up(world, runtime)
    except BaseException as error:
        control.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        raise
    _Server(control, world).serve()


def _start_afresh() -> None:
    """Undo what a shell or service manager hands down through exec: candidates shall behave alike wherever we start."""
    for number in signal.valid_signals() - _PYTHONS_OWN:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.umask(0o022)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    linux.allow_huge_pages()


def _threads() -> int:
    """How many we have, in microseconds: each is a link of this folder, besides its two own."""
    return Path("/proc/self/task").stat().st_nlink - 2


def _warm_up(world: World, runtime: Mapping[str, bytes]) -> None:
    """Import and compile what every child would; one thread must be left, or a fork inherits locks nobody opens."""
    os.environ.update(HOME=world.warm, TMPDIR=world.warm, TRITON_CACHE_DIR=world.warm, XDG_CACHE_HOME=world.warm)
    if runtime:
        cache = Path(world.warm) / "kernelsmith"  # where triton_cpu/run/pool.py looks first
        cache.mkdir(mode=0o700)
        for name, binary in runtime.items():
            (cache / name).write_bytes(binary)
    sys.path[:0] = world.setup.path
    for name in world.setup.preload:
        importlib.import_module(name)
    if world.setup.warm:
        module, _, function = world.setup.warm.rpartition(".")
        getattr(importlib.import_module(module), function)()
    entry.keep_warm(world)
    if (threads := _threads()) != 1:
        raise RuntimeError(f"the zygote has {threads} threads after importing {', '.join(world.setup.preload)}")
    gc.collect()
    gc.freeze()  # collections in a child must not touch, and so copy, the zygote's pages
    linux.collapse_memory()


class _Server:
    """The loop: requests from the judge on one side, deaths of children on the other."""

    def __init__(self, control: Channel, world: World) -> None:
        self._control = control
        self._world = world
        self._children: dict[int, tuple[int, Channel]] = {}  # pidfd: (pid, status channel)
        self._poll = select.poll()

    def serve(self) -> None:
        try:
            self._control.send(json.dumps({"layers": asdict(self._world.layers)}).encode())
        except PeerGoneError:  # the judge ended while we got ready
            self._end_all()
            return
        self._poll.register(self._control.fileno(), select.POLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if fd in self._children:
                    self._bury(fd)
                    continue
                try:
                    request = self._control.receive()
                except PeerGoneError:
                    self._end_all()
                    return
                self._fork(request)

    def _fork(self, request: Frame) -> None:
        """Where this machine refuses one, say so and go on: the others shall not end with it."""
        channel_fd, log_fd, status_fd = request.fds
        if (threads := _threads()) != 1:
            raise RuntimeError(f"the zygote has {threads} threads: a fork would inherit locks that nobody opens")
        status = Channel(socket.socket(fileno=status_fd))
        try:
            pid, pidfd = self._start(json.loads(request.payload), channel_fd, log_fd)
        except OSError as error:
            with contextlib.suppress(PeerGoneError):
                status.send(json.dumps({"error": str(error)}).encode())
            status.close()
            return
        finally:
            os.close(channel_fd)
            os.close(log_fd)
        self._children[pidfd] = (pid, status)
        self._poll.register(pidfd, select.POLLIN)
        with contextlib.suppress(PeerGoneError):  # the judge lost interest; the child still has to be buried
            status.send(b"{}", [pidfd])

    def _start(self, request: dict[str, object], channel_fd: int, log_fd: int) -> tuple[int, int]:
        """A child and its pidfd. Raises OSError."""
        entry.enter_next_pid_namespace(self._world)
        if (pid := os.fork()) == 0:
            _Child(self._world, request).run(channel_fd, log_fd)
        try:
            return pid, os.pidfd_open(pid)
        except OSError:
            os.kill(pid, signal.SIGKILL)
            _reap(pid, whole_namespace=self._world.layers.pid_namespace)
            raise

    def _end_all(self) -> None:
        for pidfd in list(self._children):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            self._bury(pidfd)
        if not self._world.layers.mount_namespace:  # the judge may have been killed, and then nobody else will
            usage.remove_tree(self._world.setup.base)

    def _bury(self, pidfd: int) -> None:
        self._poll.unregister(pidfd)
        pid, status = self._children.pop(pidfd)
        code = _reap(pid, whole_namespace=self._world.layers.pid_namespace)
        os.close(pidfd)
        with contextlib.suppress(PeerGoneError):
            status.send(json.dumps({"status": code}).encode())
        status.close()


def _reap(pid: int, *, whole_namespace: bool) -> int:
    """Wait status of an ended child, after making sure that nothing it started is left.

    Process 1 of a pid namespace can only be collected once the kernel has ended all others in it. Elsewhere the
    filter keeps descendants in the child's process group, and its number stays taken until we collect it.
    """
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    while not whole_namespace:
        with contextlib.suppress(ProcessLookupError):  # it ended before it had a group
            os.killpg(pid, signal.SIGKILL)
        rest = [other for other in usage.descendants(os.getpid()) if other != pid and usage.group_of(other) == pid]
        if not rest:
            break
        for other in rest:
            with contextlib.suppress(ChildProcessError):  # ours only once its parent is gone
                os.waitpid(other, os.WNOHANG)
        time.sleep(0.001)
    return os.waitpid(pid, 0)[1]


class _Child:
    """The fork: from the zygote's process to the role's `main`, confined in between."""

    def __init__(self, world: World, request: dict[str, object]) -> None:
        self._world = world
        self._role = str(request["role"])
        self._scratch = str(request["scratch"]) or view.SCRATCH
        limits = request["limits"]
        self._limits = Limits(**limits) if isinstance(limits, dict) else Limits()

    def run(self, channel_fd: int, log_fd: int) -> None:
        """Never returns: a fork must not go on as its parent."""
        code = 1
        try:
            channel = self._settle(channel_fd, log_fd)
            importlib.import_module(self._role).main(channel, Path(self._scratch))
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
            sys.stderr.write(f"SystemExit: {stop.code}\n")
        except BaseException:  # noqa: BLE001 - whatever the role raises belongs in the log
            traceback.print_exc()
        finally:
            with contextlib.suppress(BaseException):  # the role may have broken its own streams
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code & 0xFF)

    def _settle(self, channel_fd: int, log_fd: int) -> Channel:
        """Keep four descriptors, confine, and tell the judge how that went before any of the role's code runs."""
        null = os.open("/dev/null", os.O_RDONLY)
        # First out of the way of their targets, which may be among them.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 64) for fd in (null, log_fd, log_fd, channel_fd)]
        for target, fd in enumerate(high):
            os.dup2(fd, target, inheritable=target < _CHANNEL_FD)
        os.closerange(_CHANNEL_FD + 1, 1 << 20)
        channel = Channel(socket.socket(fileno=_CHANNEL_FD))
        os.setsid()
        linux.die_with_parent()
        try:
            confine.confine(self._world, self._limits, self._scratch)
            scratch = os.open(self._scratch, os.O_PATH | os.O_CLOEXEC)
        except BaseException as error:
            channel.send(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
            raise
        channel.send(b"{}", [scratch])
        os.close(scratch)
        faulthandler.enable()
        return channel
