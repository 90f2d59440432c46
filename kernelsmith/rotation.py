"""Whose turn it is in an ensemble of proposers, and who sits out. Used by tune.py.

Invariant: a proposer that fails for a passing reason rests before it is asked again, longer after each failure; it is
retired when that does not help, or at once when its failure is none that passes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

from kernelsmith.errors import ProviderError
from kernelsmith.proposal import StopReason
from kernelsmith.propose import Proposer

COOL_DOWN = 5.0
"""Seconds of rest after the first failure in a row."""
COOL_DOWN_GROWTH = 3.0
LONGEST_COOL_DOWN = 3600.0
"""However long a server asks to be left alone."""
MOST_FAILURES = 5
"""In a row; then a proposer is retired."""
MOST_FAILURES_UNANSWERED = 2
"""The same for one that has never answered in this run: more likely its address is wrong than that it is down."""


@dataclass(frozen=True)
class _Outage:
    """Failures in a row of one proposer."""

    failures: int
    ends: float
    """When it may be asked again, by the monotonic clock."""
    message: str
    """Of the last one."""


class Rotation:
    """Who can be asked next: the proposers without those that cannot be asked now or any more. `answered` are the specs
    of proposers that have answered before."""

    def __init__(self, proposers: tuple[Proposer, ...], answered: Iterable[str] = ()) -> None:
        self.proposers = proposers
        self.idle: dict[int, StopReason] = {}
        """Had nothing to try, or did not fit into the budget; until there is news."""
        self._answered = set(answered)
        self._outages: dict[int, _Outage] = {}
        self._retired: dict[int, str] = {}

    def next(self, order: Iterable[int] | None = None) -> int | None:
        """The first in this order (None: as they were named) that can be asked now."""
        free = (index for index in order or range(len(self.proposers)) if self._free(index))
        return next(free, None)

    def _free(self, index: int) -> bool:
        return index not in self.idle and index not in self._retired and not self._rests(index)

    def wake(self) -> None:
        """A verdict may give ideas, a settled cost may leave room."""
        self.idle.clear()

    def replied(self, index: int) -> None:
        """An answer ends an outage."""
        self._answered.add(self.proposers[index].spec)
        self._outages.pop(index, None)

    def failed(self, index: int, error: ProviderError, seconds_left: float | None) -> str:
        """Let a proposer rest, or retire it; the words for those who watch. `seconds_left` (None: no limit) of the
        run bound the rest, so that it is asked once more before the end."""
        spec, said = self.proposers[index].spec, f"{error.message} ({error.hint})" if error.hint else error.message
        if not error.passing or index in self._retired:
            self._retired[index] = error.message
            return f"{spec} is not asked again in this session: {said}"
        most = MOST_FAILURES if spec in self._answered else MOST_FAILURES_UNANSWERED
        outage = self._outages.get(index)
        if outage is None or not self._rests(index):  # calls that were in flight together fail as one
            failures = outage.failures + 1 if outage else 1
            if failures >= most:
                self._retired[index] = error.message
                return f"{spec} is not asked again in this session, it failed {failures} times in a row: {said}"
            pause = _cool_down(failures, error.wait, seconds_left)
            outage = self._outages[index] = _Outage(failures, time.monotonic() + pause, error.message)
        wait = max(0.0, outage.ends - time.monotonic())
        return f"{spec} is asked again in {wait:.0f} s (failure {outage.failures} of {most} in a row): {said}"

    @property
    def resting(self) -> bool:
        """Whether somebody can be asked again after a while."""
        return any(index not in self.idle and index not in self._retired for index in self._outages)

    @property
    def reason(self) -> StopReason:
        """Why nobody can be asked."""
        limits = [r for r in self.idle.values() if r is not StopReason.EXHAUSTED]
        return limits[0] if limits else StopReason.EXHAUSTED if self.idle else StopReason.FAILED

    @property
    def message(self) -> str:
        """What those who cannot be asked failed of."""
        resting = {index: outage.message for index, outage in self._outages.items()}
        return "; ".join((resting | self._retired).values())

    def _rests(self, index: int) -> bool:
        return index in self._outages and time.monotonic() < self._outages[index].ends


def _cool_down(failures: int, asked: float, seconds_left: float | None) -> float:
    """Seconds of rest after this many failures in a row; at least as many as the provider asks for."""
    pause = min(max(COOL_DOWN * COOL_DOWN_GROWTH ** (failures - 1), asked), LONGEST_COOL_DOWN)
    return pause if seconds_left is None else min(pause, seconds_left / 2)
