"""The judge's eye on confined children: one thread that drains their logs, samples what they use and sees them end.

Invariant: a child that goes over a limit is killed whether or not anybody waits for it, the first reason to end it is
the one reported, and `Watched.exit` is set exactly once, after its whole tree is gone and every descriptor is closed.
Whoever cannot be watched is ended and lost: the sandbox failed, not the child. zygote.py registers children here.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.errors import InfrastructureError
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.children import pause
from kernelsmith.sandbox.children.process import ends_within
from kernelsmith.sandbox.limits import SCRATCH_INODES, Ending, Exit, Limits
from kernelsmith.sandbox.wire.protocol import Channel, ProtocolError
from kernelsmith.text import clean

_SAMPLE_SECONDS, _SHORTEST_SAMPLE = 0.02, 0.001  # the short one where a tree grows towards its limit
_CLOSE_SECONDS = 5.0
_DISK_SECONDS = 0.1  # walking a scratch folder that is not a mount of its own costs more than asking one
_LOG_TAIL = 64 << 10
_READ = 64 << 10


@dataclass(frozen=True)
class Facts:
    """What the zygote handed over for one child."""

    pid: int  # in the judge's pid namespace
    pidfd: int
    status: Channel
    log_fd: int
    scratch_fd: int  # the child's own file system, or its folder
    scratch: str  # folder to be removed in the end; empty where it is a mount that goes with the child
    own_pids: bool
    zygote_pid: int
    inherited_bytes: int  # what the fork had before it ran anything
    started: float


class Watched:
    """One child under observation. Thread-safe."""

    def __init__(self, facts: Facts, limits: Limits) -> None:
        self.facts = facts
        self.limits = limits
        self.exit: Exit | None = None
        self.logged = 0  # bytes printed so far
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._reason: Ending | None = None
        self._why_lost = ""
        self._kills_before = usage.kills_for_memory()
        self._still = False
        self._log = bytearray()
        self._sampled = facts.started
        self._files: int | None = 0
        self._files_seen = 0.0
        self.used = 0  # bytes, when last looked at
        self.peak = 0
        self.due_in = _SAMPLE_SECONDS  # until it should be looked at again

    def stop(self, reason: Ending) -> None:
        """Kill the whole tree for this reason, unless there was another one before or it has ended.

        Whoever is dead has ended by itself or by others, though the zygote may be slow to say so.
        """
        with self._lock:
            if self._dead():
                return
            self._reason = self._reason or reason
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                signal.pidfd_send_signal(self.facts.pidfd, signal.SIGKILL)

    def fail(self, error: Exception) -> None:
        """It cannot be watched any more: end it, as lost."""
        self._why_lost = f"the sandbox could not watch it: {type(error).__name__}: {error}"
        self.stop(Ending.LOST)

    def dies_within(self, seconds: float) -> bool:
        """Whether it is dead by then; its exit may still have to come."""
        deadline = time.monotonic() + seconds
        while True:
            with self._lock:
                if self._dead():
                    return True
            if time.monotonic() > deadline:
                return False
            self._ended.wait(_SAMPLE_SECONDS)

    def _dead(self) -> bool:
        """Only with the lock, for the descriptor goes when the exit comes."""
        return self.exit is not None or ends_within(self.facts.pidfd, seconds=0)

    def pause(self) -> bool:
        """Make the whole tree stand still; False where it dodges that."""
        self._still = self.exit is not None or pause.stand_still(self._tree)
        return self._still

    def resume(self) -> None:
        """Let the whole tree run again."""
        self._still = False
        if self.exit is None:
            pause.go_on(self._tree())

    def survivor(self) -> int | None:
        """A process of the tree that is not dead, the youngest first; None if it is only the zygote that is silent."""
        return next((pid for pid in reversed(self._tree()) if usage.alive(pid)), None)

    def wait(self, seconds: float) -> Exit | None:
        """The exit, once there is one within that time."""
        self._ended.wait(seconds)
        return self.exit

    def drain(self) -> None:
        """Take what the child has printed; too much of it ends the child."""
        with contextlib.suppress(BlockingIOError):
            while self.logged <= self.limits.log_bytes and (data := os.read(self.facts.log_fd, _READ)):
                self.logged += len(data)
                self._log += data
                del self._log[:-_LOG_TAIL]
        if self.logged > self.limits.log_bytes:
            self.stop(Ending.LOG_FLOOD)

    def sample(self, now: float) -> None:
        """Hold what the tree uses against its limits, unless somebody has ended it or made it stand still."""
        if now - self.facts.started > self.limits.seconds:
            self.stop(Ending.TIMEOUT)
        if self._reason is not None or self._still:
            return  # it takes no more than it has; looking would only cost those who run
        pids = self._tree()
        if usage.tasks(pids) > self.limits.processes:  # first, for looking at many takes long
            self.stop(Ending.PROCESSES)
            return
        most, inherited = self.limits.memory_bytes, self.facts.inherited_bytes
        held = usage.held(pids, os.fstat(self.facts.scratch_fd).st_dev, most)
        files = self._scratch_bytes(now, held.unlinked)
        if files is None:
            self.stop(Ending.DISK)
        self._note(usage.memory(pids, held, most, inherited=inherited) + (files or 0), now)
        if self.peak > most:
            self.stop(Ending.MEMORY)

    def _note(self, used: int, now: float) -> None:
        """Remember the use, and look again before a tree that goes on growing like this is far above its limit."""
        growth = (used - self.used) / max(now - self._sampled, _SHORTEST_SAMPLE)
        left = (self.limits.memory_bytes - used) / growth if growth > 0 else _SAMPLE_SECONDS
        self.due_in = min(max(left / 2, _SHORTEST_SAMPLE), _SAMPLE_SECONDS)
        self.used, self.peak, self._sampled = used, max(self.peak, used), now

    def finish(self, code: int | None) -> None:
        """The zygote said how the child ended (`code`, a wait status), or died itself (None)."""
        ending, status, name = Ending.LOST, None, None
        try:
            if code is None and not self.facts.own_pids:
                self._kill_group()
            self.drain()
            ending, status, name = self._judge(code)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must be told of the end
            self.fail(error)
        finally:
            self._end(ending, status, name)

    def _end(self, ending: Ending, status: int | None, name: str | None) -> None:
        log = clean(bytes(self._log).decode(errors="replace"))
        if ending is Ending.LOST:
            log += f"\n{self._why_lost or 'the zygote died'}\n"
        with self._lock:
            os.close(self.facts.pidfd)
            os.close(self.facts.log_fd)
            os.close(self.facts.scratch_fd)
            self.facts.status.close()
            self.exit = Exit(ending, status, name, log, self.peak, time.monotonic() - self.facts.started)
        self._ended.set()

    def _judge(self, code: int | None) -> tuple[Ending, int | None, str | None]:
        """How it ended, its exit status, its signal."""
        if code is None:
            return self._reason or Ending.LOST, None, None
        number = os.WTERMSIG(code) if os.WIFSIGNALED(code) else None
        if number == signal.SIGKILL and self._reason is None and usage.kills_for_memory() > self._kills_before:
            self._why_lost = "the machine ran out of memory, and the kernel chose this process to end"
            return Ending.LOST, None, None  # it kept to its own limit: others took the memory
        if number is None:
            natural, status, name = Ending.EXITED, os.WEXITSTATUS(code), None
        else:
            natural, status, name = Ending.SIGNALLED, None, _signal_name(number)
        if self._reason is Ending.KILLED and number != signal.SIGKILL:
            return natural, status, name  # it was faster than our wish to end it
        return self._reason or natural, status, name

    def _tree(self) -> list[int]:
        if self.facts.own_pids:
            with self._lock:
                if self._dead():
                    return []  # its number may be another's by now, who must not be stopped or counted
            return [self.facts.pid, *usage.descendants(self.facts.pid)]
        # Orphans become the zygote's children, but stay in the child's process group.
        family = usage.descendants(self.facts.zygote_pid)
        return [pid for pid in family if usage.group_of(pid) == self.facts.pid]

    def _scratch_bytes(self, now: float, unlinked: int) -> int | None:
        """Bytes of files in the scratch; None where it is full."""
        if not self.facts.scratch:
            disk = os.fstatvfs(self.facts.scratch_fd)
            return (disk.f_blocks - disk.f_bfree) * disk.f_frsize if disk.f_bfree and disk.f_ffree else None
        if now > self._files_seen + _DISK_SECONDS:
            self._files = usage.files_below(self.facts.scratch, self.limits.scratch_bytes, SCRATCH_INODES)
            self._files_seen = now
        full = self._files is None or self._files + unlinked > self.limits.scratch_bytes
        return None if full or self._files is None else self._files + unlinked

    def _kill_group(self) -> None:
        """After the zygote's death nobody keeps the number of the group taken: signal only what is still in it."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and usage.group_of(int(entry.name)) == self.facts.pid:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(int(entry.name), signal.SIGKILL)


class Watcher:
    """The thread. Children are added from any thread; `close` returns when it has ended."""

    def __init__(self) -> None:
        self._watched: dict[int, Watched] = {}  # by descriptor: each child under its status channel and its log
        self._new: list[Watched] = []
        self._living: set[Watched] = set()
        self._lock = threading.Lock()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._closing = False
        self._poll = select.poll()
        self._poll.register(self._wake, select.POLLIN)
        self._thread = threading.Thread(target=self._run, name="kernelsmith-watcher", daemon=True)
        self._thread.start()

    def add(self, watched: Watched) -> None:
        """Watch this child from now on. Raises InfrastructureError where nobody would."""
        with self._lock:
            if self._closing:
                raise InfrastructureError("the thread that holds candidates to their limits has ended", "run again")
            self._new.append(watched)
            self._living.add(watched)
        os.eventfd_write(self._wake, 1)

    def stop_all(self, reason: Ending) -> None:
        """Kill every child."""
        with self._lock:
            living = list(self._living)
        for watched in living:
            watched.stop(reason)

    def close(self) -> None:
        """End the thread. All children have ended, but for those that nothing ends: then it stays to see them die."""
        self._closing = True
        os.eventfd_write(self._wake, 1)
        self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            os.close(self._wake)

    def _run(self) -> None:
        try:
            self._watch()
        finally:  # whatever ended it: no child runs without limits
            with self._lock:
                self._closing = True
            self.stop_all(Ending.LOST)
            for watched in self._living:
                if watched.dies_within(_CLOSE_SECONDS):
                    watched.finish(None)

    def _watch(self) -> None:
        next_sample = 0.0
        while not self._closing or self._living:
            wait = max(0.0, next_sample - time.monotonic()) * 1000 if self._watched else None
            for fd, _ in self._poll.poll(wait):
                self._handle(fd)
            now = time.monotonic()
            if now >= next_sample:
                known = set(self._watched.values())
                for watched in known:
                    with _losing(watched):
                        watched.sample(now)
                next_sample = now + min((watched.due_in for watched in known), default=_SAMPLE_SECONDS)

    def _handle(self, fd: int) -> None:
        if fd == self._wake:
            os.eventfd_read(fd)
            with self._lock:
                arrived, self._new = self._new, []
            for watched in arrived:
                for own in (watched.facts.status.fileno(), watched.facts.log_fd):
                    self._watched[own] = watched
                    self._poll.register(own, select.POLLIN)
        elif (known := self._watched.get(fd)) is None:
            return  # ended while this round of events was being handled
        elif fd == known.facts.status.fileno():
            self._end(known)
        else:
            self._drain(known)

    def _drain(self, watched: Watched) -> None:
        before = watched.logged
        with _losing(watched):
            watched.drain()
        if watched.logged == before or watched.logged > watched.limits.log_bytes:  # the end of the log, or enough of it
            self._forget(watched.facts.log_fd)

    def _end(self, watched: Watched) -> None:
        code: int | None = None
        with contextlib.suppress(ProtocolError, TimeoutError):  # the zygote died: no status will come
            code = json.loads(watched.facts.status.receive(time.monotonic() + 1).payload)["status"]
        self._forget(watched.facts.status.fileno())
        self._forget(watched.facts.log_fd)
        watched.finish(code)
        with self._lock:
            self._living.discard(watched)

    def _forget(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._poll.unregister(fd)


@contextlib.contextmanager
def _losing(watched: Watched) -> Iterator[None]:
    """What cannot be done for one child costs that child, not the others their watcher."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - as above
        watched.fail(error)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
