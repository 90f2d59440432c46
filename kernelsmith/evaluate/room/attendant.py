"""Looks after a card while jobs are on it: ends children that hold too much of its memory, and notices processes that
the driver still lists after their end.

Invariant: it is never on the way of a job: one thread asks the driver, and what it finds is picked up by the next job
(`take_notes`) or by whoever chooses the card (`unwell`). A room has one, where its driver can be asked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kernelsmith.devices.cards import Card
from kernelsmith.devices.health import Health, Use
from kernelsmith.errors import InfrastructureError
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.children.zygote import Child
from kernelsmith.sandbox.limits import Ending

PERIOD_SECONDS = 1.0
NOTED_AFTER, UNWELL_AFTER = 5.0, 60.0
"""Seconds for which a process that has ended may still be listed: a driver frees a context in less than one."""
UNANSWERED = 3
"""Queries in a row after which a driver that does not answer makes its card unwell."""


@dataclass(frozen=True)
class Trouble:
    """Why a card should not be used, and the process that the driver does not let go, if it is that."""

    why: str
    pid: int | None = None


class Attendant:
    """The thread. Children come and go with `attending`; `close` ends it."""

    def __init__(self, health: Health, card: Card, timing: Callable[[], bool] = lambda: False) -> None:
        """`timing` says whether something is measured just now: then nobody is asked, for that costs time."""
        self.unwell: Trouble | None = None
        self._health = health
        self._card = card
        self._timing = timing
        self._children: dict[Child, int] = {}
        self._ours: set[int] = set()
        """Processes of children, past and present, that the driver has listed."""
        self._left: dict[int, float] = {}
        """Processes that have ended and are listed, since when."""
        self._noted: set[int] = set()
        self._notes: list[str] = []
        self._unanswered = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._run, name=f"attendant of {card.name}", daemon=True).start()

    @contextmanager
    def attending(self, children: dict[Child, int]) -> Iterator[None]:
        """While the block runs, hold each child to so many bytes of the card's memory."""
        with self._lock:
            self._children.update(children)
        try:
            yield
        finally:
            with self._lock:
                for child in children:
                    del self._children[child]

    def take_notes(self) -> tuple[str, ...]:
        """What was noticed since the last call."""
        with self._lock:
            notes, self._notes = tuple(self._notes), []
        return notes

    def close(self) -> None:
        """It ends within a query."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.wait(PERIOD_SECONDS):
            with self._lock:
                children = dict(self._children)
            if (children or self._ours) and not self._timing():
                self._look(children, time.monotonic())

    def _look(self, children: dict[Child, int], now: float) -> None:
        try:
            uses = self._health.uses(self._card)
            trees = {child: {child.pid, *usage.descendants(child.pid)} for child in children}
        except (InfrastructureError, OSError) as error:
            self._unanswered += 1
            if self._unanswered >= UNANSWERED:
                self.unwell = self.unwell or Trouble(str(error))
            return
        self._unanswered = 0
        for child, limit in children.items():
            self._ours |= trees[child] & {use.pid for use in uses}
            if sum(use.nbytes for use in uses if use.pid in trees[child]) > limit:
                child.stop(Ending.DEVICE_MEMORY)
        self._look_for_the_dead(uses, now)

    def _look_for_the_dead(self, uses: tuple[Use, ...], now: float) -> None:
        held = {use.pid: use.nbytes for use in uses if use.pid in self._ours and not usage.alive(use.pid)}
        self._ours = {pid for pid in self._ours if pid in held or usage.alive(pid)}
        self._left = {pid: self._left.get(pid, now) for pid in held}
        for pid, since in self._left.items():
            words = f"{self._card.name} still holds {held[pid] >> 20} MiB for process {pid}, which has ended"
            if now - since > NOTED_AFTER and pid not in self._noted:
                self._noted.add(pid)
                with self._lock:
                    self._notes.append(words)
            if now - since > UNWELL_AFTER:
                self.unwell = self.unwell or Trouble(words, pid)
