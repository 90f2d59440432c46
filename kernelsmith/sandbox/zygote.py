"""The judge's handle on confined processes: start a zygote, spawn children from it, talk to them, end them.

Invariant: `request` and `kill` come back in bounded time whatever the child does, and when they report an end, the
child's whole tree, its descriptors and its files are gone. A lost zygote costs its children (`Ending.LOST`), not the
judge: the next `spawn` starts another. Imports neither torch nor triton. Judges call it, from any thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType

from kernelsmith.errors import InfrastructureError, SandboxError
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.confine import NOBODY, Setup
from kernelsmith.sandbox.limits import Ending, Exit, Layer, Layers, Limits
from kernelsmith.sandbox.protocol import Channel, Frame, PeerGoneError, ProtocolError
from kernelsmith.sandbox.watch import Facts, Watched, Watcher

_PASSED_ON = (
    *("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "ROCM_PATH"),
    *("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME"),
)
# A library that ever ran parallel code in the zygote would hang in its forks.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
_WARM_SECONDS = 300.0
_SPAWN_SECONDS = 60.0
_DEATH_SECONDS = 20.0
_GRACE_SECONDS = 1.0
# The package is loaded from its own folder, so that no neighbour of it enters the import path.
_BOOT = """
import importlib.util, sys
home = sys.argv[2]
spec = importlib.util.spec_from_file_location("kernelsmith", home + "/__init__.py", submodule_search_locations=[home])
sys.modules["kernelsmith"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["kernelsmith"])
from kernelsmith.sandbox.server import main
main(int(sys.argv[1]))
"""


class ChildEnded(Exception):  # noqa: N818 - an end is a fact about the candidate, not our error
    """The child will not answer: it died, went over a limit or out of time; it is gone now."""

    def __init__(self, exit: Exit) -> None:
        super().__init__(exit.describe())
        self.exit = exit


class Child:
    """A confined process. One thread at a time calls `request`; `kill` may come from any. Always end with `kill`."""

    def __init__(self, channel: Channel, watched: Watched, label: str) -> None:
        self._channel = channel
        self._watched = watched
        self.label = label

    @property
    def pid(self) -> int:
        """Its number in the judge's pid namespace."""
        return self._watched.facts.pid

    @property
    def elapsed(self) -> float:
        """Seconds since `spawn`."""
        return time.monotonic() - self._watched.facts.started

    def request(self, payload: bytes, fds: Sequence[int] = (), *, seconds: float) -> Frame:
        """Send a frame and return the child's next one.

        Raises ChildEnded (the child is dead then; `exit.ending` is LOST if the sandbox failed, not the child) and
        ProtocolError where it answered with something that is no frame; it is killed for that.
        """
        deadline = time.monotonic() + seconds
        try:
            self._channel.send(payload, fds, deadline=deadline)
            return self._channel.receive(deadline)
        except TimeoutError:
            raise ChildEnded(self._end(Ending.TIMEOUT)) from None
        except PeerGoneError:
            self._watched.wait(_GRACE_SECONDS)  # its channel closes a moment before its end is known
            raise ChildEnded(self._end(Ending.KILLED)) from None
        except ProtocolError:
            self.kill()
            raise

    def kill(self) -> Exit:
        """SIGKILL the whole tree and return how it ended; the recorded end if it has ended before."""
        return self._end(Ending.KILLED)

    def _end(self, reason: Ending) -> Exit:
        self._watched.stop(reason)
        ended = self._watched.wait(_DEATH_SECONDS)
        self._channel.close()
        if ended is None:
            note = f"process {self.pid} does not die: it waits for the kernel or a device"
            return Exit(Ending.LOST, log=note, seconds=self.elapsed)
        return ended

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class _Server:
    """One run of the zygote's process, from exec to its end."""

    def __init__(self, python: str, environment: Mapping[str, str], setup: Setup) -> None:
        self.base = tempfile.mkdtemp(prefix="kernelsmith-")
        if os.geteuid() == 0:
            os.chown(self.base, NOBODY, NOBODY)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.control = Channel(ours, max_fds=0)
        self.lost = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        with theirs:
            self.process = subprocess.Popen(
                [python, "-I", "-B", "-c", _BOOT, str(theirs.fileno()), setup.package],
                env=dict(environment),
                cwd="/",
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._errors,
                stderr=self._errors,
                start_new_session=True,
            )
        try:
            self.layers = self._greet(replace(setup, base=self.base))
            if self.layers.mount_namespace:
                Path(self.base).rmdir()  # it was only a place to mount on: nothing is left if we are killed
        except BaseException:
            self.close()
            raise

    def _greet(self, setup: Setup) -> Layers:
        try:
            self.control.send(setup.encode())
            said = json.loads(self.control.receive(time.monotonic() + _WARM_SECONDS).payload)
        except (ProtocolError, TimeoutError) as error:
            raise SandboxError(f"the zygote did not start: {error}", self._stderr()) from error
        if "error" in said:
            raise SandboxError(f"the zygote did not start: {said['error']}", self._stderr())
        layers = said["layers"]
        return Layers(**{**layers, "notes": tuple(layers["notes"])})

    def make_scratch(self) -> str:
        """A folder for one child, where it cannot have a mount of its own."""
        folder = tempfile.mkdtemp(dir=self.base)
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        return folder

    def _stderr(self) -> str:
        return os.pread(self._errors.fileno(), 1 << 16, 0).decode(errors="replace")[-2000:]

    def close(self) -> None:
        """Hang up; the zygote and all its children end."""
        self.control.close()
        try:
            self.process.wait(_DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._errors.close()
        usage.remove_tree(self.base)


class Zygote:
    """A warm process that untrusted code is forked from, each fork confined. Thread-safe.

    `preload` is imported and `warm` ("package.module.function") called once, before any fork; neither may start a
    thread or touch a device. `path` holds more folders to import roles from, `readable` more files and folders that
    children may read and device nodes that they may use; `environment` adds variables to the few that are passed on.
    `without` leaves layers out, and `unsafe` goes on where what holds is not sound. Raises SandboxError.
    """

    def __init__(
        self,
        *,
        python: str = sys.executable,
        preload: Sequence[str] = ("torch", "triton", "triton.language"),
        warm: str = "",
        path: Sequence[str] = (),
        readable: Sequence[str] = (),
        environment: Mapping[str, str] = MappingProxyType({}),
        unsafe: bool = False,
        without: Collection[Layer] = (),
    ) -> None:
        self._python = python
        self._unsafe = unsafe
        self._environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._environment |= {**_ONE_THREAD, **environment}
        package = str(Path(__file__).parents[1])
        self._setup = Setup("", package, tuple(preload), warm, tuple(path), tuple(readable), tuple(without))
        self._lock = threading.Lock()
        self._children: weakref.WeakSet[Watched] = weakref.WeakSet()
        self._closed = False
        self._server = self._start()
        self._watcher = Watcher()

    @property
    def layers(self) -> Layers:
        """What holds for the children of the present zygote."""
        return self._server.layers

    @property
    def pid(self) -> int:
        """The process that was started; the zygote itself, or its keeper where it has namespaces of its own."""
        return self._server.process.pid

    def spawn(self, role: str, *, limits: Limits, label: str = "") -> Child:
        """Fork a confined process that calls `role.main(channel, scratch)`, and return when it is confined.

        Raises InfrastructureError where the zygote cannot fork (it was restarted once), SandboxError where it cannot
        be started again, and ValueError after `close`.
        """
        try:
            return self._spawn(role, limits, label)
        except PeerGoneError:
            pass  # the zygote died: the next try starts another
        try:
            return self._spawn(role, limits, label)
        except PeerGoneError as error:
            raise InfrastructureError("the zygote died twice while starting a child", str(error)) from error

    def close(self) -> None:
        """End every child and the zygote; safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            children = list(self._children)
        for watched in children:
            watched.stop(Ending.KILLED)
        self._server.close()
        self._watcher.close()

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> _Server:
        server = _Server(self._python, self._environment, self._setup)
        if not server.layers.sound and not self._unsafe:
            server.close()
            reasons = "; ".join(server.layers.notes) or "neither Landlock nor mount namespaces, or no seccomp"
            hint = "use Linux 5.13 or newer with Landlock, or allow user namespaces; unsafe=True trusts every candidate"
            raise SandboxError(f"untrusted code cannot be confined here ({reasons})", hint)
        return server

    def _spawn(self, role: str, limits: Limits, label: str) -> Child:
        """One try. Raises PeerGoneError if the zygote is or goes away."""
        started = time.monotonic()
        wires = _Wires()
        try:
            server, scratch = self._ask(role, limits, wires)
            pidfd = wires.receive_pidfd(server)
            pid = _pid_behind(pidfd)
            inherited = usage.resident_bytes([pid])
            scratch_fd = wires.receive_birth()
        except TimeoutError as error:
            wires.close()
            raise InfrastructureError(f"the zygote did not start {label or role} in {_SPAWN_SECONDS:.0f} s") from error
        except BaseException:
            wires.close()
            raise
        own_pids = server.layers.pid_namespace
        facts = Facts(
            pid, pidfd, wires.status, wires.log, scratch_fd, scratch, own_pids, server.process.pid, inherited, started
        )
        watched = Watched(facts, limits)
        with self._lock:
            self._children.add(watched)
        self._watcher.add(watched)
        return Child(wires.channel, watched, label)

    def _ask(self, role: str, limits: Limits, wires: _Wires) -> tuple[_Server, str]:
        """Send the request, to a new zygote if the last one is lost; returns it and the folder made for the child."""
        with self._lock:
            if self._closed:
                raise ValueError("spawn on a closed Zygote")
            if self._server.lost or self._server.process.poll() is not None:
                self._server.close()
                self._server = self._start()
            server = self._server
            scratch = "" if server.layers.mount_namespace else server.make_scratch()
            request = {"role": role, "scratch": scratch, "limits": asdict(limits)}
            try:
                server.control.send(
                    json.dumps(request).encode(), wires.given, deadline=time.monotonic() + _SPAWN_SECONDS
                )
            except PeerGoneError:
                server.lost = True
                raise
        wires.hand_over()
        return server, scratch


class _Wires:
    """The descriptors between the judge and one child: the ends we keep, and those that go to the zygote."""

    def __init__(self) -> None:
        self.channel, self._their_channel = Channel.pair(max_fds=1)
        self.status, self._their_status = Channel.pair(max_fds=1)
        self.log, self._their_log = os.pipe()
        os.set_blocking(self.log, False)
        self._pidfd: int | None = None
        self._given = True
        self._deadline = time.monotonic() + _SPAWN_SECONDS

    @property
    def given(self) -> list[int]:
        """In the order that the server expects."""
        return [self._their_channel.fileno(), self._their_log, self._their_status.fileno()]

    def hand_over(self) -> None:
        """Close the ends that the zygote has now, so that its death is seen as the end of ours."""
        if self._given:
            self._given = False
            self._their_channel.close()
            self._their_status.close()
            os.close(self._their_log)

    def receive_pidfd(self, server: _Server) -> int:
        """The child's pidfd, from the zygote."""
        try:
            frame = self.status.receive(self._deadline)
        except PeerGoneError:
            server.lost = True
            raise
        self.status.refuse_fds()
        (self._pidfd,) = frame.fds
        return self._pidfd

    def receive_birth(self) -> int:
        """A descriptor of the scratch, from the child itself: it is confined, and runs the role from here on."""
        try:
            frame = self.channel.receive(self._deadline)
        except PeerGoneError as error:
            raise InfrastructureError("a child died before it was confined", "is memory short?") from error
        said = json.loads(frame.payload)
        if "error" in said:
            raise InfrastructureError(f"a child could not confine itself: {said['error']}")
        self.channel.refuse_fds()
        (scratch,) = frame.fds
        return scratch

    def close(self) -> None:
        """Give up on the child; the zygote buries it."""
        self.hand_over()
        self.channel.close()
        self.status.close()
        os.close(self.log)
        if self._pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)


def _pid_behind(pidfd: int) -> int:
    """The process's number as seen here; its own namespace knows it as 1."""
    text = Path(f"/proc/self/fdinfo/{pidfd}").read_text()
    return int(next(line.split()[1] for line in text.splitlines() if line.startswith("Pid:")))
