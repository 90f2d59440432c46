"""Who may use the device when: checks share it, a measurement has it alone.

One lock file per device serves every judge on the host (flock shared/exclusive); inside a process a condition does, so
that a waiting measurement is not starved by new checks. The file lies where only this user writes.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path


def lock_folder() -> Path:
    """A folder of this user's own for lock files; outlives the process, not the machine."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / "kernelsmith" if base else Path(tempfile.gettempdir()) / f"kernelsmith-{os.getuid()}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


class DeviceGate:
    """Shared and exclusive use of one device."""

    def __init__(self, device: str) -> None:
        self._path = lock_folder() / f"device-{device.replace('/', '_').replace(':', '-')}.lock"
        self._condition = threading.Condition()
        self._sharing = 0
        self._alone = False
        self._waiting_alone = 0
        self._shared_fd: int | None = None

    @contextlib.contextmanager
    def shared(self) -> Iterator[None]:
        """Compile and check: several at once."""
        with self._condition:
            self._condition.wait_for(lambda: not self._alone and not self._waiting_alone)
            if self._sharing == 0:
                self._shared_fd = self._lock(fcntl.LOCK_SH)
            self._sharing += 1
        try:
            yield
        finally:
            with self._condition:
                self._sharing -= 1
                if self._sharing == 0 and self._shared_fd is not None:
                    os.close(self._shared_fd)
                    self._shared_fd = None
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
        fd = None
        try:
            fd = self._lock(fcntl.LOCK_EX)
            yield
        finally:
            if fd is not None:
                os.close(fd)
            with self._condition:
                self._alone = False
                self._condition.notify_all()

    def _lock(self, operation: int) -> int:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, operation)
        except BaseException:
            os.close(fd)
            raise
        return fd


class Turns:
    """A gate as one job sees it: it enters `waiting()` while it queues."""

    def __init__(self, gate: DeviceGate, waiting: Callable[[], AbstractContextManager[None]]) -> None:
        self._gate = gate
        self._waiting = waiting

    def shared(self) -> AbstractContextManager[None]:
        return self._in_turn(self._gate.shared())

    def exclusive(self) -> AbstractContextManager[None]:
        return self._in_turn(self._gate.exclusive())

    @contextlib.contextmanager
    def _in_turn(self, entry: AbstractContextManager[None]) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            with self._waiting():
                stack.enter_context(entry)
            yield
