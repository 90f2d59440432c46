"""What a check has shown so far, gathered while it runs: the `Evidence` of a verdict.

Invariant: only what really ran is in it, so that evidence of a check that was cut short says so. One per attempt at a
candidate; whoever runs a part of the check adds to it, from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType

from kernelsmith.evaluate.truth.margins import Margins
from kernelsmith.evidence import CaseTried, Evidence, Refuted, Repeats, Swept
from kernelsmith.outcome import Level, Outcome
from kernelsmith.space import Where
from kernelsmith.tolerances import Policy


class Collector:
    """Parts of one candidate's evidence."""

    def __init__(
        self,
        level: Level = Level.QUICK,
        *,
        dims: Mapping[str, tuple[int, int]] = MappingProxyType({}),
        versions: Mapping[str, str] = MappingProxyType({}),
        tolerance: Policy | None = None,
    ) -> None:
        """`dims`: the declared range of each. `versions` of what the verdict depends on. `tolerance`: what answers are
        held to, if a team's."""
        self.margins = Margins()
        """How near the answers come to what is allowed."""
        self._level = level
        self._dims = dict(dims)
        self._tolerance = tolerance
        self._versions = dict(versions)
        self._lock = threading.Lock()
        self._tried: dict[str, CaseTried] = {}
        self._swept: list[Swept] = []
        self._repeats: Repeats | None = None
        self._refuted: Refuted | None = None
        self._examined = 0
        self._left_out: dict[str, None] = {}

    def ran(self, where: Where, runs: int = 1) -> None:
        """So many real calls or replays of a case gave answers that were compared."""
        self._note(where, runs, Outcome.PASSED)

    def failed(self, where: Where, outcome: Outcome) -> None:
        """A case failed; the run that showed it was counted by `ran`, or counts now where it gave no answer."""
        self._note(where, 0, outcome)

    def examined(self) -> None:
        """A plan ran with checked builds of its kernels."""
        with self._lock:
            self._examined += 1

    def swept(self, swept: Swept) -> None:
        """A dim was walked."""
        with self._lock:
            self._swept.append(swept)

    def repeats(self, repeats: Repeats) -> None:
        """Equal calls were repeated."""
        with self._lock:
            self._repeats = repeats

    def refuted(self, refuted: Refuted) -> None:
        """It was found out where the candidate is wrong."""
        with self._lock:
            self._refuted = refuted

    def leave_out(self, sentence: str) -> None:
        """Something is not covered, and why: one sentence that a user reads."""
        with self._lock:
            self._left_out[sentence] = None

    def evidence(self, seconds: float) -> Evidence | None:
        """All of it, or None if nothing ran; `seconds` are those of the check."""
        with self._lock:
            if not self._tried:
                return None
            return Evidence(
                level=self._level,
                dims=self._dims,
                versions=self._versions,
                seconds=seconds,
                cases=tuple(self._tried.values()),
                tolerance=self._tolerance,
                closeness=self.margins.closeness(),
                swept=tuple(self._swept),
                repeats=self._repeats,
                refuted=self._refuted,
                examined=self._examined,
                left_out=tuple(self._left_out),
            )

    def _note(self, where: Where, runs: int, outcome: Outcome) -> None:
        place = where.model_copy(update={"call": 0, "replay": False})
        key = place.model_dump_json()
        with self._lock:
            before = self._tried.get(key)
            if before is not None:
                runs += before.runs
                outcome = before.outcome if outcome is Outcome.PASSED else outcome
            self._tried[key] = CaseTried(where=place, runs=max(1, runs), outcome=outcome)
