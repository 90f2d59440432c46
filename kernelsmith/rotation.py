"""Whose turn it is in an ensemble of proposers, and who sits out. Used by tune.py."""

from __future__ import annotations

from dataclasses import dataclass, field

from kernelsmith.proposal import StopReason
from kernelsmith.propose import Proposer


@dataclass
class Rotation:
    """Who is asked next: the proposers in turn, without those that cannot be asked now or any more."""

    proposers: tuple[Proposer, ...]
    idle: dict[int, StopReason] = field(default_factory=dict)
    """Had nothing to try, or did not fit into the budget; until there is news."""
    failed: dict[int, str] = field(default_factory=dict)
    turn: int = 0

    def next(self) -> int | None:
        for step in range(len(self.proposers)):
            index = (self.turn + step) % len(self.proposers)
            if index not in self.idle and index not in self.failed:
                self.turn = index + 1
                return index
        return None

    def wake(self) -> None:
        """A verdict may give ideas, a settled cost may leave room."""
        self.idle.clear()

    @property
    def reason(self) -> StopReason:
        """Why nobody can be asked."""
        limits = [r for r in self.idle.values() if r is not StopReason.EXHAUSTED]
        return limits[0] if limits else StopReason.EXHAUSTED if self.idle else StopReason.FAILED
