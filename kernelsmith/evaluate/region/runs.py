"""Extra runs of a candidate that has failed already: each costs time, so they are counted, remembered and limited.

Invariant: the same case is never run twice, and what ends the search (time, number of runs) is an exception that
carries no verdict. Everything in this folder that searches asks through `Runs`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.outcome import Outcome

Probe = Callable[[Case], Outcome | None]
"""Runs one case: how it failed, or None where it was right. Raises InfrastructureError."""

MOST_RUNS = 600
"""Of one search: ten times what one dim takes."""


class SpentError(Exception):
    """No time or no runs are left; what was found so far stands."""


class Runs:
    """A probe with a memory and a limit."""

    def __init__(
        self, probe: Probe, *, seconds: float, most: int = MOST_RUNS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """No run is begun after `most` of them, or `seconds` from now."""
        self._probe = probe
        self._most = most
        self._clock = clock
        self._end = clock() + seconds
        self._known: dict[str, tuple[Case, Outcome | None]] = {}
        self.count = 0

    @property
    def spent(self) -> bool:
        """No further run is allowed."""
        return self.count >= self._most or self._clock() >= self._end

    def known(self) -> Iterator[tuple[Case, bool]]:
        """Every case that was run, and whether it was wrong."""
        return ((case, outcome is not None) for case, outcome in self._known.values())

    def knows(self, case: Case) -> bool:
        return _key(case) in self._known

    def outcome(self, case: Case) -> Outcome | None:
        """How the case fails; raises SpentError where that is not known and there is no run left for it."""
        key = _key(case)
        if key not in self._known:
            if self.spent:
                raise SpentError
            self.count += 1
            self._known[key] = case, self._probe(case)
        return self._known[key][1]

    def wrong(self, case: Case) -> bool:
        return self.outcome(case) is not None


def _key(case: Case) -> str:
    return case.model_dump_json()
