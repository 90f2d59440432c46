"""How many candidates at once: as many as memory and cores allow, measured when one asks and learned as they end.

An evaluation reserves what the last ones of its kind took; what it has not taken yet is still to come, and of other
judges' all of it, since they are not asked: two judges rather wait than take too much. Memory is
shared by all judges of this user on the host, through one locked file per evaluation that holds its reservation (the
death of a judge frees it); cores are counted per judge, since sharing them only slows things down. Nobody overtakes:
what those who came first wait for counts as taken. Invariant: where nobody is at work, the first one goes in whatever
it needs, so that nothing waits for ever.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kernelsmith.execute import Tell
from kernelsmith.sandbox import machine

LOOK_SECONDS = 0.1
"""Between two looks of whoever waits."""
PATIENCE_SECONDS = 0.5
"""A shorter wait is not worth a word."""
SPARE_SHARE = 0.05
"""Of the machine's memory, never given away: for what grows between two looks, and for other programs."""
REMEMBERED = 16
"""Evaluations of a kind whose peaks count."""
HEADROOM = 1.25
"""Times the highest of them: the next candidate is another one."""
BESIDE_BYTES = 384 << 20
"""What is used for an evaluation by others than its own processes: a compiler, the judge's copies and truths."""


class User(Protocol):
    """A process of an evaluation."""

    @property
    def used(self) -> int:
        """Bytes at present."""

    @property
    def peak(self) -> int:
        """Bytes at most so far."""


class Idle(Protocol):
    """Memory that is kept only to save time."""

    def release(self) -> None:
        """Give it up."""


@dataclass(eq=False)
class Place:
    """An evaluation that waits or is at work."""

    ticket: Ticket
    users: list[User] = field(default_factory=list)
    """Its processes, named as they start."""
    _beside: int = 0
    """Bytes at most of those that lived beside them for a while."""
    whole: bool = False
    """Whether it went through every stage, so that the next one of its kind is expected to take as much."""

    @contextlib.contextmanager
    def beside(self, *users: User) -> Iterator[None]:
        """Inside, these processes live beside the others, and none that lived beside them before."""
        self.users += users
        try:
            yield
        finally:
            self._beside = max(self._beside, sum(user.peak for user in users))
            self.users = [one for one in self.users if one not in users]

    @property
    def peak(self) -> int:
        """Bytes at most so far."""
        return sum(user.peak for user in self.users) + self._beside

    @property
    def outstanding(self) -> int:
        """Bytes that it is expected to take yet."""
        return max(0, self.ticket.nbytes - sum(user.used for user in self.users))


class Admission:
    """The door of one judge. Thread-safe."""

    def __init__(
        self,
        folder: Path,
        cores: int,
        idle: Sequence[Idle] = (),
        *,
        free_bytes: Callable[[], int] = machine.free_bytes,
    ) -> None:
        """`folder` is shared by the judges of this host; `idle` is given up before anybody waits for memory."""
        self._tickets = Tickets(folder / "reservations")
        self._cores = cores
        self._idle = idle
        self._free_bytes = free_bytes
        self._spare = int(SPARE_SHARE * machine.total_bytes())
        self._changed = threading.Condition()
        self._places: dict[str, Place] = {}
        self._peaks: defaultdict[str, deque[int]] = defaultdict(lambda: deque(maxlen=REMEMBERED))

    @contextlib.contextmanager
    def admitted(self, kind: str, guess: int, tell: Tell) -> Iterator[Place]:
        """Inside, the evaluation may work. It reserves `guess` bytes as long as none of its kind has been through."""
        with self._changed:
            if peaks := self._peaks.get(kind):
                guess = BESIDE_BYTES + int(HEADROOM * max(peaks))
        place = Place(self._tickets.draw(guess))
        with self._changed:
            self._places[place.ticket.name] = place
        try:
            self._wait(place, tell)
            yield place
        finally:
            with self._changed:
                del self._places[place.ticket.name]
                if place.whole:
                    self._peaks[kind].append(place.peak)
                place.ticket.close()
                self._changed.notify_all()

    def _wait(self, place: Place, tell: Tell) -> None:
        begin, said = time.monotonic(), ""
        while True:
            with self._changed:
                if not (why := self._why_not(place)):
                    break
                reason = why.partition(":")[0]
                news = reason != said and time.monotonic() - begin > PATIENCE_SECONDS
                if not news:
                    self._changed.wait(LOOK_SECONDS)
            if news:  # outside: whoever hears it may be slow, and others are to come and go meanwhile
                tell(why)
                said = reason
        if said:
            tell("")

    def _why_not(self, place: Place) -> str:
        """Why it must wait; nothing where it goes in, which others see from here on."""
        with self._tickets.deciding(patient=False) as decides:
            if not decides:
                return "waits for another judge to decide"
            own = place.ticket.name
            before = [one for one in self._tickets.all() if one.name != own and (one.working or one.name < own)]
            if before and (why := self._shortage(place, before)):
                return why
            place.ticket.work()
            return ""

    def _shortage(self, place: Place, before: Sequence[Entry]) -> str:
        ours = sum(ticket.name in self._places for ticket in before)
        if ours >= self._cores:
            return f"waits for a core: {_others(ours)} at work or came first, on {self._cores}"
        needed, taken = place.ticket.nbytes, sum(map(self._to_come, before))
        left = self._free_bytes() - self._spare - taken
        if left < needed:
            for one in self._idle:
                one.release()
            left = self._free_bytes() - self._spare - taken
        if left >= needed:
            return ""
        figures = f"{max(left, 0) / 2**30:.1f} GiB are free, {needed / 2**30:.1f} GiB needed"
        return f"waits for memory: {figures}; {_others(len(before))} at work or came first"

    def _to_come(self, ticket: Entry) -> int:
        ours = self._places.get(ticket.name)
        return ours.outstanding if ours is not None else ticket.nbytes


def _others(count: int) -> str:
    return "1 other is" if count == 1 else f"{count} others are"


@dataclass(frozen=True)
class Entry:
    """What a ticket says to everybody."""

    name: str
    nbytes: int
    working: bool


class Ticket:
    """A locked file; names sort by when they were drawn."""

    def __init__(self, path: Path, nbytes: int) -> None:
        self._path = path
        self.name = path.name
        self.nbytes = nbytes
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        self._write("waiting")

    def work(self) -> None:
        self._write("working")

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._fd)

    def _write(self, state: str) -> None:
        os.pwrite(self._fd, f"{self.nbytes} {state}\n".encode(), 0)  # both states are as long


class Tickets:
    """Those of this user's judges on this host; one whose lock is free belonged to a judge that died."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._numbers = itertools.count()

    @contextlib.contextmanager
    def deciding(self, *, patient: bool = True) -> Iterator[bool]:
        """One at a time on the whole host: whether one is that, which takes patience where a judge is stopped."""
        fd = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | (0 if patient else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(fd)

    def draw(self, nbytes: int) -> Ticket:
        with self.deciding():
            name = f"{time.monotonic_ns():020d}-{os.getpid()}-{next(self._numbers)}"
            return Ticket(self._folder / name, nbytes)

    def all(self) -> list[Entry]:
        """Only while `deciding`, when nobody draws one."""
        return [entry for path in sorted(self._folder.glob("*-*")) if (entry := self._entry(path)) is not None]

    def _entry(self, path: Path) -> Entry | None:
        with contextlib.suppress(FileNotFoundError):  # given back just now
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                path.unlink()
            except BlockingIOError:
                nbytes, state = os.pread(fd, 64, 0).split()
                return Entry(path.name, int(nbytes), state == b"working")
            finally:
                os.close(fd)
        return None
