"""How often a candidate may be wrong, from how often it was, and whether one kind of run is wrong more often: exact.

Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial" (Biometrika 26,
1934): the ends are the rates at which as many wrong runs, or more, and as many or fewer, have half of what confidence
leaves. The rates are found by bisection; no table and no library is needed for that.

Fisher, "Statistical Methods for Research Workers" (5th edition, 1934), section 21.02: the exact test of a table of two
by two.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from kernelsmith.evidence import Rate

CONFIDENCE = 0.95
DOUBT = 1 - CONFIDENCE
"""The probability, by chance, up to which a difference counts as shown."""
_HALVINGS = 60


def interval(wrong: int, runs: int) -> tuple[float, float]:
    """Of the share of wrong runs, at 95 %. With none (or all) wrong, the one end left gets all of the 5 %."""
    if not 0 <= wrong <= runs or runs < 1:
        raise ValueError(f"{wrong} wrong runs of {runs}")
    tail = DOUBT
    if wrong == 0:
        return 0.0, 1 - tail ** (1 / runs)
    if wrong == runs:
        return tail ** (1 / runs), 1.0
    low = _rate(lambda p: 1 - _at_most(wrong - 1, runs, p) >= tail / 2, 0.0, wrong / runs)
    high = _rate(lambda p: _at_most(wrong, runs, p) < tail / 2, wrong / runs, 1.0)
    return low, high


def rate(wrong: int, runs: int) -> Rate:
    """With its interval; there must be runs."""
    return Rate(runs=runs, wrong=wrong, ci95=interval(wrong, runs))


def more_often(these: tuple[int, int], others: tuple[int, int]) -> float:
    """Of (wrong, runs) each: the probability that at least so many of the wrong runs are among `these` if both kinds
    are wrong equally often, Fisher's one-sided p."""
    (wrong, runs), (other_wrong, other_runs) = these, others
    if not (0 <= wrong <= runs and 0 <= other_wrong <= other_runs):
        raise ValueError(f"{wrong} wrong runs of {runs}, {other_wrong} of {other_runs}")
    drawn = wrong + other_wrong
    ways = (math.comb(runs, k) * math.comb(other_runs, drawn - k) for k in range(wrong, min(drawn, runs) + 1))
    return sum(ways) / math.comb(runs + other_runs, drawn)


def clean_runs(rate: float) -> int:
    """Runs that must all be right to show, at 95 %, that fewer than this share is wrong: the rule of three, exactly."""
    return math.ceil(math.log(DOUBT) / math.log1p(-rate))


def _rate(reached: Callable[[float], bool], low: float, high: float) -> float:
    """Where `reached`, false at `low` and true at `high`, becomes true."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _at_most(wrong: int, runs: int, rate: float) -> float:
    """The probability of at most so many wrong runs."""
    if rate >= 1:
        return float(wrong >= runs)
    if rate <= 0:
        return 1.0
    known = math.lgamma(runs + 1)
    right, false = math.log1p(-rate), math.log(rate)
    terms = (
        known - math.lgamma(k + 1) - math.lgamma(runs - k + 1) + k * false + (runs - k) * right
        for k in range(wrong + 1)
    )
    return min(1.0, math.fsum(map(math.exp, terms)))
