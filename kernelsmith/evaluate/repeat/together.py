"""Calls at once: does a candidate still give each caller its own answer, and how many callers does it take to break it?

Half of the calls launch together and take turns program by program (cpp/pool.cpp), which shows what they share however
few cores there are; the others run as they may. Half find NaN in fresh memory, the others what earlier calls left.
Where some are wrong, more calls on the same contents, so many at once, fewer, and one after the other, show whether
company is the reason. Called by `repeat`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from kernelsmith.evaluate.repeat.runs import ManyRuns
from kernelsmith.evaluate.repeat.statistics import DOUBT, more_often, rate
from kernelsmith.evaluate.repeat.tally import Tally
from kernelsmith.evaluate.repeat.verdict import Verdict, verdict
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evidence import Together
from kernelsmith.outcome import Outcome

LEAST_RUNS = 64
"""For each number, and two rounds of each kind where that is more."""
CERTAIN_RUNS = 256
"""Of each number that a verdict names: a share of 2 % is then told from none."""
KINDS = ((True, True), (True, False), (False, True), (False, False))
"""Whether launches take turns, and whether fresh memory is poisoned."""
CONTENTS = 16
"""Different contents: more than are likely to be mixed up."""


@dataclass
class Tried:
    """What calls at once have shown."""

    together: list[Together] = field(default_factory=list)
    """By how many at once."""
    finding: Finding | None = None
    least: int = 0
    """The fewest at once that went wrong."""
    below: int = 1
    """The most at once, fewer than that, that were all right."""
    closer: dict[int, Tally] = field(default_factory=dict)
    """More runs of both numbers and of calls one after the other, none of which was chosen for what it showed."""

    @property
    def reached(self) -> int:
        return max((one.at_once for one in self.together), default=1)

    def verdict(self) -> Verdict | None:
        """On a candidate that was right in all calls one after the other so far."""
        if self.finding is None:
            return None
        alone, crowd = self.closer[1], self.closer[self.least]
        if alone.wrong:
            return verdict(alone, Tally(alone.judged), f"wrong in {rate(alone.wrong, alone.runs).words}")
        seen = next(one for one in self.together if one.at_once == self.least)
        against = {number: _against(crowd, tally) for number, tally in self.closer.items() if number < self.least}
        counts = [f"{_count(tally)} {_company(number)}" for number, tally in sorted(self.closer.items(), reverse=True)]
        test = (
            f"{seen.words} with {self.least} at once; again, on the same contents, {', '.join(counts)}; Fisher's exact "
            f"test: p = {max(against.values()):.1g}"
        )
        if against[1] >= DOUBT:
            message = f"wrong now and then when {self.least} calls run at once, too seldom to say that company is why"
            return Verdict(Outcome.NONDETERMINISTIC, f"{message} ({test}); {self.finding.message}")
        clear = max(against.values()) < DOUBT and not self.closer[self.below].wrong
        head = f"wrong only when {self.least} or more" if clear else f"wrong when {self.least}"
        return Verdict(
            Outcome.RACE,
            f"{head} calls run at once ({test}): they share memory that each writes to, such as a workspace that is "
            "kept between calls; allocate it in the call (or check with --at-once, if so many calls never overlap); "
            f"{self.finding.message}",
        )


def climb(runs: ManyRuns, tally: Callable[[], Tally], most: int, seconds: float) -> Tried:
    """2, 4, 8 and so on to `most` calls at once, for about so many seconds; once some are wrong, how few it takes.

    Raises CandidateFailure where a call fails otherwise.
    """
    tried, until = Tried(), time.monotonic() + seconds
    for at_once in [*(2**power for power in range(1, 6) if 2**power < most), *([most] if most > 1 else [])]:
        if tried.together and time.monotonic() > until:
            return tried
        if _try(runs, at_once, tally(), tried):
            break
        tried.below = at_once
    else:
        return tried
    while tried.least - tried.below > 1:
        middle = (tried.below + tried.least) // 2
        if not _try(runs, middle, tally(), tried):
            tried.below = middle
    for number in sorted({1, tried.below, tried.least}):
        tried.closer[number] = tally()
        while not tried.closer[number].runs or (
            tried.closer[number].runs < CERTAIN_RUNS and time.monotonic() < until + seconds
        ):
            _call(runs, number, tried.closer[number])
    tried.together.sort(key=lambda one: one.at_once)
    return tried


def _try(runs: ManyRuns, at_once: int, tally: Tally, tried: Tried) -> bool:
    """Whether any of so many calls at once is wrong."""
    _call(runs, at_once, tally)
    shown = rate(tally.wrong, tally.runs)
    tried.together.append(Together(at_once=at_once, **shown.model_dump()))
    if tally.wrong:
        tried.least, tried.finding = at_once, tally.finding
    return bool(tally.wrong)


def _call(runs: ManyRuns, at_once: int, tally: Tally) -> None:
    """Some rounds of each kind."""
    rounds = max(2, LEAST_RUNS // len(KINDS) // at_once)
    rounds = max(1, min(rounds, runs.batch // at_once))
    try:
        for turns, poison in KINDS:
            runs.calls(rounds * at_once, tally, at_once=at_once, turns=turns, poison=poison)
    except CandidateFailure as failure:
        if at_once > 1:
            failure.message = f"with {at_once} calls at once, {failure.message}"
        raise


def _against(crowd: Tally, other: Tally) -> float:
    """How likely a difference like that is by chance."""
    return more_often((crowd.wrong, crowd.runs), (other.wrong, other.runs))


def _count(tally: Tally) -> str:
    return f"{tally.wrong or 'none'} of {tally.runs:,}"


def _company(number: int) -> str:
    return f"with {number} at once" if number > 1 else "one after the other"
