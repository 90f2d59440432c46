"""Calls at once: does a candidate still give each caller its own answer, and how many callers does it take to break it?

Half of the calls launch together and take turns program by program (cpp/pool.cpp), which shows what they share however
few cores there are; the others run as they may. Half find NaN in fresh memory, the others what earlier calls left.
Called by `repeat`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelsmith.evaluate.repeat.runs import Runs
from kernelsmith.evaluate.repeat.tally import Tally
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evidence import Together

LEAST_RUNS = 64
"""For each number, and two rounds of each kind where that is more."""
KINDS = ((True, True), (True, False), (False, True), (False, False))
"""Whether launches take turns, and whether fresh memory is poisoned."""
CONTENTS = 16
"""Different contents: more than are likely to be mixed up."""


@dataclass
class Tried:
    """What calls at once have shown."""

    together: list[Together] = field(default_factory=list)
    finding: Finding | None = None
    least: int = 0
    """The fewest at once that went wrong."""

    def words(self, alone: int) -> str:
        """One sentence; `alone` calls, none of them wrong, ran one after the other."""
        worst = next(one for one in self.together if one.at_once == self.least)
        return (
            f"wrong only when {self.least} or more calls run at once ({worst.wrong} of {worst.runs} runs; none of "
            f"{alone:,} alone): they share memory that each writes to, such as a workspace that is kept between calls; "
            "allocate it in the call (or check with --at-once, if so many calls never overlap)"
        )


def sweep(runs: Runs, tally: Callable[[], Tally], most: int, seconds: float) -> Tried:
    """2, 4, 8 and so on to `most` calls at once, for about so many seconds; once some are wrong, how few it takes.

    Raises CandidateFailure where a call fails otherwise.
    """
    tried, until = Tried(), time.monotonic() + seconds
    below = 1
    for at_once in [*(2**power for power in range(1, 6) if 2**power < most), *([most] if most > 1 else [])]:
        if tried.together and time.monotonic() > until:
            return tried
        if _try(runs, at_once, tally(), tried):
            break
        below = at_once
    else:
        return tried
    while tried.least - below > 1:
        middle = (below + tried.least) // 2
        if not _try(runs, middle, tally(), tried):
            below = middle
    tried.together.sort(key=lambda one: one.at_once)
    return tried


def _try(runs: Runs, at_once: int, tally: Tally, tried: Tried) -> bool:
    """Whether any of so many calls at once is wrong."""
    rounds = max(2, LEAST_RUNS // len(KINDS) // at_once)
    rounds = max(1, min(rounds, runs.batch // at_once))
    try:
        for turns, poison in KINDS:
            runs.calls(rounds * at_once, tally, at_once=at_once, turns=turns, poison=poison)
    except CandidateFailure as failure:
        failure.message = f"with {at_once} calls at once, {failure.message}"
        raise
    tried.together.append(Together(at_once=at_once, runs=tally.runs, wrong=tally.wrong))
    if tally.wrong:
        tried.least, tried.finding = at_once, tally.finding
    return bool(tally.wrong)
