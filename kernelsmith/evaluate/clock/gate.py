"""Who may use the device when: checks share it, a measurement has it alone.

Lock files serve every judge on the host (flock, shared or exclusive). Whoever wants the device first passes a turnstile
and keeps it until the device is his, so that a measurement that waits is not starved by new checks, in this process or
in another. Inside a process a condition does the same, since a blocked flock cannot be told apart from a held one. The
files lie where only this user writes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from kernelsmith.devices.marks import file_of
from kernelsmith.evaluate.sessions.failure import CandidateFailure


class DeviceGate:
    """Shared and exclusive use of one device."""

    def __init__(self, device: str) -> None:
        self._path = file_of(device, "lock")
        self._turnstile = file_of(device, "turnstile")
        self._condition = threading.Condition()
        self._sharing = 0
        self._alone = False
        self._waiting_alone = 0

    @property
    def alone(self) -> bool:
        """Whether somebody in this process has the device alone."""
        return self._alone

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Compile and check: several at once."""
        with self._condition:
            self._condition.wait_for(lambda: not self._alone and not self._waiting_alone)
            self._sharing += 1
        try:
            with self._locked(fcntl.LOCK_SH):
                yield
        finally:
            with self._condition:
                self._sharing -= 1
                self._condition.notify_all()

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Measure: nothing else of ours runs on the device."""
        with self._condition:
            self._waiting_alone += 1
            try:
                self._condition.wait_for(lambda: not self._alone and not self._sharing)
            finally:
                self._waiting_alone -= 1
            self._alone = True
        try:
            with self._locked(fcntl.LOCK_EX):
                yield
        finally:
            with self._condition:
                self._alone = False
                self._condition.notify_all()

    @contextlib.contextmanager
    def _locked(self, operation: int) -> Iterator[None]:
        device = _opened(self._path)
        try:
            turnstile = _opened(self._turnstile)
            try:
                fcntl.flock(turnstile, fcntl.LOCK_EX)
                fcntl.flock(device, operation)
            finally:
                os.close(turnstile)
            yield
        finally:
            os.close(device)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


class Sleeper(Protocol):
    """Processes of a job that can be made to run only while they are asked something."""

    def rest(self) -> None: ...

    def wake(self) -> None: ...


class Turns:
    """A gate as one job sees it: it enters `waiting()` while it queues.

    The job's processes run freely only in a shared turn. When it has none, another job may be measuring; when it has
    the device alone, one process is timed and none of the others may be in its way.
    """

    def __init__(
        self,
        gate: DeviceGate,
        waiting: Callable[[], AbstractContextManager[None]],
        processes: Sequence[Sleeper] = (),
    ) -> None:
        self._gate = gate
        self._waiting = waiting
        self._processes = processes

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        with self._in_turn(self._gate.shared()):
            for process in self._processes:
                process.wake()
            try:
                yield
            except BaseException:
                with contextlib.suppress(CandidateFailure):  # what is in flight comes first
                    self._rest()
                raise
            self._rest()

    def _rest(self) -> None:
        with contextlib.ExitStack() as each:  # also those after one that does not
            for process in self._processes:
                each.callback(process.rest)

    def exclusive(self) -> AbstractContextManager[None]:
        return self._in_turn(self._gate.exclusive())

    @contextlib.contextmanager
    def _in_turn(self, entry: AbstractContextManager[None]) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            with self._waiting():
                stack.enter_context(entry)
            yield
