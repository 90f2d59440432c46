"""The judge's handle on confined processes: start a zygote, spawn children from it, talk to them, end them.

Invariant: `request` and `kill` come back in bounded time whatever the child does, and when they report an end, the
child's whole tree, its descriptors and its files are gone; a child that nothing ends is said to be stuck. A lost zygote
costs its children (`Ending.LOST`), not the judge: the next `spawn` starts another. Imports neither torch nor triton.
Judges call it, from any thread.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType

from kernelsmith.errors import InfrastructureError, SandboxError
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.children.process import (
    SPAWN_SECONDS,
    Wires,
    ZygoteProcess,
    ends_within,
    pid_behind,
)
from kernelsmith.sandbox.children.watch import Facts, Watched, Watcher
from kernelsmith.sandbox.confine import landlock
from kernelsmith.sandbox.confine.advice import advise
from kernelsmith.sandbox.confine.confine import Setup
from kernelsmith.sandbox.limits import Ending, Exit, Layer, Layers, Limits
from kernelsmith.sandbox.wire.protocol import Channel, Frame, PeerGoneError, ProtocolError

_DEATH_SECONDS = 20.0
_GRACE_SECONDS = 5.0
_ZYGOTES_PER_SPAWN = 2


class ChildEnded(Exception):  # noqa: N818 - an end is a fact about the candidate, not our error
    """The child will not answer: it died, went over a limit or out of time; it is gone now."""

    def __init__(self, exit: Exit) -> None:
        super().__init__(exit.describe())
        self.exit = exit


class Child:
    """A confined process. One thread at a time calls `request`; `kill` may come from any. Always end with `kill`."""

    def __init__(self, channel: Channel, watched: Watched, server: ZygoteProcess, label: str) -> None:
        self._channel = channel
        self._server = server
        self._watched = watched
        self.label = label

    @property
    def pid(self) -> int:
        """Its number in the judge's pid namespace."""
        return self._watched.facts.pid

    @property
    def used(self) -> int:
        """Bytes of its whole tree when last looked at, as its memory limit counts them; 0 once it has ended."""
        return 0 if self._watched.exit is not None else self._watched.used

    @property
    def peak(self) -> int:
        """Bytes at most so far."""
        return self._watched.peak

    @property
    def elapsed(self) -> float:
        """Seconds since `spawn`."""
        return time.monotonic() - self._watched.facts.started

    def request(self, payload: bytes, fds: Sequence[int] = (), *, seconds: float) -> Frame:
        """Send a frame and return the child's next one.

        Raises ChildEnded (the child is dead then, unless `exit.ending` is STUCK; LOST if the sandbox failed) and
        ProtocolError where it answered with something that is no frame; it is killed for that.
        """
        deadline = time.monotonic() + seconds
        try:
            self._channel.send(payload, fds, deadline=deadline)
            return self._channel.receive(deadline)
        except TimeoutError:
            raise ChildEnded(self._end(Ending.TIMEOUT)) from None
        except PeerGoneError:
            self._watched.dies_within(_GRACE_SECONDS)  # its channel closes a moment before; then it is not our doing
            raise ChildEnded(self._end(Ending.KILLED)) from None
        except ProtocolError:
            self.kill()
            raise

    def pause(self) -> bool:
        """Make it and everything it started stand still, until `resume`; False where it dodges that."""
        return self._watched.pause()

    def resume(self) -> None:
        """Let it run again."""
        self._watched.resume()

    def stop(self, reason: Ending) -> None:
        """SIGKILL the whole tree for this reason, from any thread and without waiting: whoever asks is told."""
        self._watched.stop(reason)

    def kill(self) -> Exit:
        """SIGKILL the whole tree and return how it ended; the recorded end if it has ended before.

        Nothing else can be done for one that is STUCK; it is given up, and the kernel ends it when it can.
        """
        return self._end(Ending.KILLED)

    def _end(self, reason: Ending) -> Exit:
        self._watched.stop(reason)
        ended = self._watched.wait(_DEATH_SECONDS)
        self._channel.close()
        if ended is not None:
            self._clear()
            return ended
        survivor = self._watched.survivor()
        # A zygote that does not bury the dead is of no use, nor one that waits for them: without namespaces it does.
        if survivor is None or not self._watched.facts.own_pids:
            self._server.lost = True
        if survivor is None:
            return Exit(Ending.LOST, log="the zygote does not answer", seconds=self.elapsed)
        return Exit(Ending.STUCK, seconds=self.elapsed, survivor=survivor)

    def _clear(self) -> None:
        """Remove what it left. Not the watcher's work: a child decides how long that takes."""
        scratch = self._watched.facts.scratch
        if scratch and Path(scratch).exists():
            usage.remove_tree(scratch)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class Zygote:
    """A warm process that untrusted code is forked from, each fork confined. Thread-safe.

    `preload` is imported and `warm` ("package.module.function") called once, before any fork; neither may start a
    thread or touch a device. `path` holds more folders to import roles from, `readable` more files and folders that
    children may read and device nodes that they may use; `environment` adds variables to the few that are passed on.
    `without` leaves layers out, `newest_landlock` takes the kernel for an older one, and `unsafe` goes on where what
    holds is not sound. Raises SandboxError.
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
        newest_landlock: int = landlock.NEWEST,
    ) -> None:
        self._python = python
        self._unsafe = unsafe
        self._environment = dict(environment)
        self._setup = Setup(
            package=str(Path(__file__).parents[2]),
            preload=tuple(preload),
            warm=warm,
            path=tuple(path),
            readable=tuple(readable),
            without=tuple(without),
            newest_landlock=newest_landlock,
        )
        self._lock = threading.Lock()
        self._closed = False
        self._watcher = Watcher()
        try:
            self._server = self._start()
        except BaseException:
            self._watcher.close()
            raise

    @property
    def layers(self) -> Layers:
        """What holds for the children of the present zygote."""
        return self._server.layers

    @property
    def pid(self) -> int:
        """The process that was started; the zygote itself, or its keeper where it has namespaces of its own."""
        return self._server.pid

    def spawn(self, role: str, *, limits: Limits, label: str = "") -> Child:
        """Fork a confined process that calls `role.main(channel, scratch)`, and return when it is confined.

        Raises InfrastructureError where the zygote cannot fork (it was restarted once), SandboxError where it cannot
        be started again, and ValueError after `close`.
        """
        deaths: list[str] = []
        while len(deaths) < _ZYGOTES_PER_SPAWN:
            try:
                return self._spawn(role, limits, label)
            except PeerGoneError as error:  # the next try starts another zygote
                deaths.append(str(error))
        raise InfrastructureError(f"{len(deaths)} zygotes died while starting a child", "; ".join(deaths))

    def close(self) -> None:
        """End every child and the zygote; safe to call twice."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._watcher.stop_all(Ending.KILLED)
        self._server.close()
        self._watcher.close()

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self) -> ZygoteProcess:
        try:
            server = ZygoteProcess(self._python, self._environment, self._setup)
        except SandboxError:
            # It, or the compiler that warms it, was killed, perhaps; once more, as when one dies later.
            server = ZygoteProcess(self._python, self._environment, self._setup)
        if not server.layers.sound and not self._unsafe:
            server.close()
            reasons = "; ".join(server.layers.notes) or "neither Landlock nor mount namespaces, or no seccomp"
            change = "; ".join(one.change for one in advise(server.layers))
            hint = f"{change}; or --unsafe-no-sandbox, which trusts every candidate"
            raise SandboxError(f"untrusted code cannot be confined here ({reasons})", hint)
        return server

    def _spawn(self, role: str, limits: Limits, label: str) -> Child:
        """One try. Raises PeerGoneError if the zygote is or goes away."""
        started = time.monotonic()
        wires = Wires()
        try:
            server = self._ask(role, limits, wires)
            pidfd = wires.receive_pidfd(server)
            pid = pid_behind(pidfd)
            inherited = usage.mapped([pid]).private
            scratch_fd = wires.receive_birth()
            # one that dies at once has given its memory back a moment before it is dead
            if not inherited and not ends_within(pidfd, seconds=2.0):
                raise InfrastructureError(f"cannot see what process {pid} uses", "is /proc mounted with hidepid?")
        except TimeoutError as error:
            wires.close()
            raise InfrastructureError(f"the zygote did not start {label or role} in {SPAWN_SECONDS:.0f} s") from error
        except BaseException:
            wires.close()
            raise
        facts = Facts(
            pid=pid,
            pidfd=pidfd,
            status=wires.status,
            log_fd=wires.log,
            scratch_fd=scratch_fd,
            scratch=wires.folder,
            own_pids=server.layers.pid_namespace,
            zygote_pid=server.pid,
            inherited_bytes=inherited,
            started=started,
        )
        watched = Watched(facts, limits)
        try:
            with self._lock:
                if self._closed:
                    raise ValueError("the Zygote was closed meanwhile")
                self._watcher.add(watched)
        except BaseException:
            wires.close()
            raise
        return Child(wires.channel, watched, server, label)

    def _ask(self, role: str, limits: Limits, wires: Wires) -> ZygoteProcess:
        """Send the request, to a new zygote if the last one is lost; returns it."""
        with self._lock:
            if self._closed:
                raise ValueError("spawn on a closed Zygote")
            if not self._server.alive:
                self._server.close()
                self._server = self._start()
            server = self._server
            try:
                if not server.layers.mount_namespace:
                    wires.folder = server.make_scratch()
                request = {"role": role, "scratch": wires.folder, "limits": asdict(limits)}
                server.control.send(
                    json.dumps(request).encode(), wires.given, deadline=time.monotonic() + SPAWN_SECONDS
                )
            except (PeerGoneError, FileNotFoundError) as error:  # whoever dies removes its folder first
                server.lost = True
                raise PeerGoneError(f"the zygote is gone: {error}") from error
        wires.hand_over()
        return server
