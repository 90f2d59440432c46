"""What is in flight: calls of models and evaluations, each on a thread of its own, landing in one queue.

Invariant: threads only carry; everything that decides or writes happens on the loop's thread, when a flight has landed.
The threads are daemons, so a hanging call never keeps the program alive. Used by tune.py.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kernelsmith.errors import InfrastructureError
from kernelsmith.execute import DeviceLostError

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

INFRASTRUCTURE_PAUSE = 0.5
"""Seconds, times the number of failures so far."""
INFRASTRUCTURE_TRIES = 3


@dataclass(frozen=True)
class Landing(Generic[K, V]):
    """`error` is what the flight raised; otherwise `value` is what it returned."""

    key: K
    value: V | None
    error: Exception | None


class Flights(Generic[K, V]):
    """Up to as many as the caller starts; not itself safe to share between threads."""

    def __init__(self) -> None:
        self._landed: queue.SimpleQueue[Landing[K, V]] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[tuple[K, str]] = queue.SimpleQueue()
        self._keys: list[K] = []

    @property
    def keys(self) -> tuple[K, ...]:
        return tuple(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def start(self, key: K, work: Callable[[], V]) -> None:
        def fly() -> None:
            try:
                self._landed.put(Landing(key, work(), None))
            except Exception as error:  # noqa: BLE001 - raised again, or turned into a verdict, on the loop's thread
                self._landed.put(Landing(key, None, error))

        self._keys.append(key)
        threading.Thread(target=fly, name=f"flight {key}", daemon=True).start()

    def say(self, key: K, text: str) -> None:
        """Called by a flight's thread: something to be heard before it lands."""
        self._said.put((key, text))

    def heard(self) -> list[tuple[K, str]]:
        """What flights have said since the last call."""
        found = []
        with contextlib.suppress(queue.Empty):
            while True:
                found.append(self._said.get_nowait())
        return found

    def land(self, timeout: float) -> Landing[K, V] | None:
        """The next to land, or None after `timeout` seconds."""
        try:
            landing = self._landed.get(timeout=timeout)
        except queue.Empty:
            return None
        self._keys.remove(landing.key)
        return landing


def patiently(work: Callable[[], T]) -> T:
    """Try again what failed for reasons that no candidate is to blame for."""
    for attempt in range(1, INFRASTRUCTURE_TRIES + 1):
        try:
            return work()
        except InfrastructureError as error:
            if isinstance(error, DeviceLostError) or attempt == INFRASTRUCTURE_TRIES:
                raise
            time.sleep(INFRASTRUCTURE_PAUSE * attempt)
    raise AssertionError("unreachable: the last attempt returns or raises")
