"""Where jobs are judged: in a room on a card that is well. A card that a job hangs is given up, and the job tried again
on another one.

Invariant: a candidate is charged with a hang only if it hung a second card, or the same one once that was well again,
while no other job of this host was on it; a card that was given up is marked on disk before anything else happens, and
used again only after it has answered a probe. On the CPU, which cannot be given up, all this does nothing. The judge
holds one `Rooms`.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kernelsmith.base import digest
from kernelsmith.devices import cards, marks
from kernelsmith.devices.cards import Card
from kernelsmith.errors import KernelsmithError
from kernelsmith.evaluate.clock.gate import DeviceGate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.evaluate.sessions.stuck import StuckError
from kernelsmith.execute import DeviceLostError, Tell, quiet
from kernelsmith.model import DeviceMark, Evaluation, Job
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.targets import resolve

CHANCES = 2
"""Cards that one candidate may hang."""
MOST_TURNS = 5
"""Verdicts on cards that others hung meanwhile, the last of which counts; for cards of which none stays well."""
PATIENCE_SECONDS = 120.0
"""How long a judge without any card waits for one that it gave up itself."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""Seconds between looks at a process that does not die; doubled each time."""


class Rooms:
    """The judge's rooms: one that is open, and those that were given up while jobs are in them. Thread-safe."""

    def __init__(
        self,
        target: str,
        *,
        targets: Path | None = None,
        unsafe_no_sandbox: bool = False,
        make: Callable[[Card], Room] | None = None,
    ) -> None:
        """`make` opens a room on a card. Raises UsageError where there is no such target."""

        def opened(card: Card) -> Room:
            return Room(target, targets=targets, unsafe_no_sandbox=unsafe_no_sandbox, card=card)

        self._target = resolve(target, targets)
        self._make = make or opened
        self._jobs = DeviceGate(f"{self._target.torch_device}-jobs")
        self._lock = threading.RLock()
        self._room: Room | None = None
        self._at_work: Counter[Room] = Counter()
        self._own: set[str] = set()
        """Cards that this judge gave up."""
        self._closed = threading.Event()

    def room(self, *, enter: bool = False) -> Room:
        """On the first card that is well; to `enter` it counts one job more in it. Raises UsageError if there is no
        card, DeviceLostError if none is well or becomes so soon."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        for pause in _pauses():
            with self._lock:
                bad = self._look()
                if self._room is not None:
                    self._at_work[self._room] += enter
                    return self._room
            # outside of the lock: others leave their rooms meanwhile
            if not self._own or time.monotonic() > deadline or self._closed.wait(pause):
                raise _lost(bad)
        raise AssertionError("pauses have no end")

    def _look(self) -> list[DeviceMark]:
        """Have a room if some card is well; the marks of those that are not. The caller holds the lock."""
        if self._room is not None and (trouble := self._room.unwell) is not None:
            self._abandon(self._room, marks.new(self._room.card.name, trouble.why, pid=trouble.pid))
        bad: list[DeviceMark] = []
        for card in [] if self._room is not None else cards.present(self._target):
            mark = marks.read(card.name)
            self._room = self._make(card) if mark is None else self._recovered(card, mark)
            if self._room is not None:
                break
            bad.extend(filter(None, [marks.read(card.name) or mark]))
        return bad

    def evaluate(self, job: Job, tell: Tell = quiet) -> Evaluation:
        """The verdict on one candidate; raises as `evaluate.evaluate` does, and DeviceLostError."""
        from kernelsmith.evaluate import absent, sanitised  # late: describing an operator needs none of it

        evaluate = absent.evaluate if job.without_device else sanitised.evaluate

        given_up: list[DeviceMark] = []
        alone, turns = False, 0
        while len(given_up) < CHANCES:
            turns += 1
            with self._jobs.exclusive() if alone else self._jobs.shared(), self._entered() as room:
                alone = True  # the next time, so that it is not blamed for what another does
                try:
                    verdict = evaluate(job, room, tell)
                except StuckError as stuck:
                    given_up.append(self._give_up(room, stuck, job))
                    continue
                if verdict.outcome is Outcome.PASSED or room is self._room or turns >= MOST_TURNS:
                    return verdict.model_copy(update={"given_up": tuple(given_up)})
                # it failed on a card that another job hung meanwhile: that says nothing
        return Evaluation(
            outcome=Outcome.TIMEOUT,
            stage=Stage.CHECK,
            message=f"its kernels or its process cannot be ended: the device had to be given up, {CHANCES} times "
            f"({'; '.join(mark.why for mark in given_up)})",
            given_up=tuple(given_up),
            confinement=room.confinement,
        )

    def close(self) -> None:
        """End every room."""
        self._closed.set()
        with self._lock:
            rooms = {*self._at_work, *([self._room] if self._room else [])}
        for room in rooms:
            room.close()

    @contextmanager
    def _entered(self) -> Iterator[Room]:
        """A room with one job more in it; one that was given up is closed when the last has left it."""
        room = self.room(enter=True)
        try:
            yield room
        finally:
            with self._lock:
                self._at_work[room] -= 1
                self._close_unused(room)

    def _close_unused(self, room: Room) -> None:
        """Off the way of jobs: its processes may take long to end. The caller holds the lock."""
        if room is not self._room and not self._at_work[room]:
            del self._at_work[room]
            threading.Thread(target=room.close, name="closing a room", daemon=True).start()

    def _give_up(self, room: Room, stuck: StuckError, job: Job) -> DeviceMark:
        """Mark the room's card, and open none on it until it is well."""
        if room.card.node is None:
            raise stuck
        return self._abandon(
            room, marks.new(room.card.name, stuck.message, pid=stuck.pid, candidate=digest(job.source))
        )

    def _abandon(self, room: Room, reason: DeviceMark) -> DeviceMark:
        card, mark = room.card, marks.write(reason)
        with self._lock:
            if self._room is not None and self._room.card == card:
                idle, self._room = self._room, None
                self._close_unused(idle)
            if card.name not in self._own:
                self._own.add(card.name)
                threading.Thread(target=self._await, args=(card,), name=f"{card.name} is bad", daemon=True).start()
        return mark

    def _await(self, card: Card) -> None:
        """Take the mark away once the card is well again, for jobs and runs to come."""
        for pause in _pauses():
            if self._closed.wait(pause):
                return
            with self._lock:
                try:
                    if self._is_back(card):
                        return
                except (KernelsmithError, OSError):
                    traceback.print_exc()  # of the machine, not of the card: looked at again after the next pause

    def _is_back(self, card: Card) -> bool:
        if (mark := marks.read(card.name)) is None:
            self._own.discard(card.name)
            return True
        if (room := self._recovered(card, mark)) is None:
            return False
        if self._room is not None:
            room.close()
        else:
            self._room = room
        return True

    def _recovered(self, card: Card, mark: DeviceMark) -> Room | None:
        """A room on a card that was given up and answers again; a look that hangs is a new reason to give it up."""
        if marks.held(mark):
            return None
        why: str
        pid: int | None = None
        with ExitStack() as unless_well:
            room = self._make(card)
            unless_well.callback(room.close)
            try:
                room.probe(mark.pid)
                marks.clear(card.name)
                self._own.discard(card.name)
                unless_well.pop_all()
                return room
            except StuckError as stuck:
                why, pid = stuck.message, stuck.pid
            except KernelsmithError as error:
                why = error.message
        marks.clear(card.name)
        marks.write(marks.new(card.name, f"it does not answer: {why}", pid=pid or mark.pid, candidate=mark.candidate))
        return None


def _pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)


def _lost(bad: list[DeviceMark]) -> DeviceLostError:
    return DeviceLostError(
        f"no device is left: {'; '.join(mark.words for mark in bad)}",
        f"it is used again once it answers; if it never does, restart the machine, or remove "
        f"{', '.join(str(marks.file_of(mark.device, 'bad')) for mark in bad)} if it was reset without that",
        tuple(bad),
    )
