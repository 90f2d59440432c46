"""Which model is asked next: improvement per share of the budget, with an upper confidence bound.

A cost-aware UCB1 (Auer, Cesa-Bianchi, Fischer 2002) on relative improvements, as ShinkaEvolve uses for ensembles of
models (arXiv 2509.19349): what a call brought is the logarithm of what it multiplied the best score by, and what it
took is its largest share of any limit of the run, so that dollars, tokens, trials and time are one currency. Pure and
deterministic: a resumed run asks whom it would have asked. Called by the loop and by the report.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from pydantic import Field

from kernelsmith.base import Frozen
from kernelsmith.outcome import Outcome
from kernelsmith.proposal import Budget, Usage
from kernelsmith.runs import Call, CallStatus, TrialRecord

FIRST = math.log(2)
"""What the first kernel that passes is worth: as much as doubling the speed of one."""
EXPLORATION = 0.5
"""Weight of the confidence term; 1 is UCB1's for rewards in 0..1, and calls are few and dear."""
LEAST_COST = 1e-6
"""Share of the budget: a call that took nothing took this much."""
_MADE = frozenset({CallStatus.INTENT, CallStatus.ANSWERED, CallStatus.LOST})


class Tally(Frozen):
    """What one model was asked and what came of it."""

    model: str
    calls: int = 0
    """Answered, lost or in flight."""
    passed: int = 0
    best: float | None = None
    """Its best score, or estimated share of the roofline."""
    improvement: float = Field(default=0.0, ge=0)
    """Sum over its trials of ln(best score after / before); the first pass of a run counts as a doubling."""
    usage: Usage = Usage()
    cost: float = Field(default=0.0, ge=0)
    """Sum over its calls of the largest share of any limit that they took, verdicts included."""

    @property
    def per_dollar(self) -> float | None:
        """Improvement per dollar; None where it cost none."""
        return self.improvement / float(self.usage.usd) if self.usage.usd else None


def tallies(calls: Collection[Call], trials: Mapping[int, TrialRecord], budget: Budget) -> tuple[Tally, ...]:
    """One per model that was asked, in the order of their first calls."""
    gains = dict(_gains(trials.values()))
    found: dict[str, Tally] = {}
    for call in sorted(calls, key=lambda c: c.number):
        if call.status not in _MADE:
            continue
        tally = found.setdefault(call.model, Tally(model=call.model))
        trial = trials.get(call.number)
        evaluation = trial.evaluation if trial is not None else None
        usage = call.reserved if call.status is CallStatus.INTENT else call.usage
        seconds = usage.seconds + (evaluation.seconds.total if evaluation is not None else 0.0)
        standing = evaluation.standing if evaluation is not None else None
        found[call.model] = tally.model_copy(
            update={
                "calls": tally.calls + 1,
                "passed": tally.passed + (evaluation is not None and evaluation.outcome is Outcome.PASSED),
                "best": max(filter(None, (tally.best, standing)), default=None),
                "improvement": tally.improvement + gains.get(call.number, 0.0),
                "usage": tally.usage + usage,
                "cost": tally.cost + max(LEAST_COST, _share(usage, seconds, budget)),
            }
        )
    return tuple(found.values())


def order(models: Sequence[str], known: Iterable[Tally]) -> list[int]:
    """Indices of the models, the one to ask first; those that were never asked come first, as they were named."""
    by_name = {tally.model: tally for tally in known}
    asked = [by_name.get(model, Tally(model=model)) for model in models]
    efficiency = [tally.improvement / tally.cost if tally.calls else 0.0 for tally in asked]
    most = max(efficiency, default=0.0) or 1.0
    total = sum(tally.calls for tally in asked)

    def bound(index: int) -> float:
        calls = asked[index].calls
        if not calls:
            return math.inf
        return efficiency[index] / most + EXPLORATION * math.sqrt(2 * math.log(total + 1) / calls)

    return sorted(range(len(models)), key=lambda index: -bound(index))


def _gains(trials: Iterable[TrialRecord]) -> Iterable[tuple[int, float]]:
    """By trial: the logarithm of what it multiplied the best standing by, where it did."""
    best: float | None = None
    for trial in sorted(trials, key=lambda t: t.number):
        standing = trial.evaluation.standing if trial.evaluation is not None else None
        if standing is None or trial.repeats is not None or (best is not None and standing <= best):
            continue
        yield trial.number, FIRST if best is None else math.log(standing / best)
        best = standing


def _share(usage: Usage, seconds: float, budget: Budget) -> float:
    """The largest share of a limit that a call took; without any limit, as much as there are seconds in an hour."""
    shares = [
        float(usage.usd / budget.max_usd) if budget.max_usd else 0.0,
        usage.tokens / budget.max_tokens if budget.max_tokens else 0.0,
        1 / budget.max_trials if budget.max_trials else 0.0,
        seconds / (budget.max_seconds or 3600.0),
    ]
    return max(shares)
