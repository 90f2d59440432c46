"""The time that a candidate has for itself. Its checker and its sessions share one, so that whatever any of them waits
for on behalf of others costs it nothing."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class OwnTime:
    """A clock, in seconds, that stands still while any thread is inside `excused()`. Thread-safe."""

    def __init__(self, seconds: float = math.inf) -> None:
        """`seconds`: all that there is."""
        self._lock = threading.Lock()
        self._excusing = 0
        self._excused = 0.0
        self._stopped = 0.0
        """When it stopped, where it stands still."""
        self._end = self.now + seconds

    @property
    def now(self) -> float:
        """Only differences mean anything."""
        with self._lock:
            return (self._stopped if self._excusing else time.monotonic()) - self._excused

    @property
    def left(self) -> float:
        """Seconds until all is used up; negative after that."""
        return self._end - self.now

    def restart(self, seconds: float) -> None:
        """There are so many from now on, whatever was left."""
        self._end = self.now + seconds

    @contextmanager
    def excused(self) -> Iterator[None]:
        """What passes inside is not the candidate's time."""
        with self._lock:
            if not self._excusing:
                self._stopped = time.monotonic()
            self._excusing += 1
        try:
            yield
        finally:
            with self._lock:
                self._excusing -= 1
                if not self._excusing:
                    self._excused += time.monotonic() - self._stopped
