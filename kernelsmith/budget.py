"""When a run stops and what its next call may use: pure functions over Budget and Spent.

Invariants: a call in flight counts at its reservation, so `--max-usd` and `--max-tokens` are never exceeded; the time
that the winner's re-check and re-measurement take is kept for them. Called by tune.py before every call.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from pydantic import Field

from kernelsmith.base import Frozen
from kernelsmith.model import Evaluation
from kernelsmith.proposal import Budget, Spent, StopReason, Usage

RESERVED_SHARE = 0.10
"""Share of the time kept for the winner."""
RESERVED_AT_MOST = 0.50
"""However slow one evaluation is, half of the time is for the search."""
SHORTEST_REPLY = 512
"""Output tokens below which a reply cannot hold a kernel: a call that is left less does not fit."""
LONGEST_CALL = 600.0
"""Seconds; also the provider's default."""


class Costs(Frozen):
    """Seconds that judging takes in a run, as far as it is known."""

    trial: float = Field(default=0.0, ge=0)
    """An evaluation of the search, typically."""
    recheck: float = Field(default=0.0, ge=0)
    """The winner's full check and longer measurement."""


UNKNOWN = Costs()


class Allowance(Frozen):
    """What the next call may use at most; None is no limit."""

    tokens: int | None = Field(default=None, ge=0)
    usd: Decimal | None = Field(default=None, ge=0)
    seconds: float = Field(default=LONGEST_CALL, ge=0)

    def covers(self, usage: Usage) -> bool:
        return (self.tokens is None or usage.tokens <= self.tokens) and (self.usd is None or usage.usd <= self.usd)

    def short_of(self, usage: Usage) -> StopReason:
        """Which limit `usage` does not fit into."""
        return StopReason.USD if self.usd is not None and usage.usd > self.usd else StopReason.TOKENS


def reserved_seconds(budget: Budget, costs: Costs) -> float:
    """Seconds kept for the winner: a tenth, and at least what its re-check takes."""
    if budget.max_seconds is None:
        return 0.0
    return min(max(RESERVED_SHARE * budget.max_seconds, costs.recheck), RESERVED_AT_MOST * budget.max_seconds)


def search_seconds(budget: Budget, spent: Spent, costs: Costs = UNKNOWN) -> float | None:
    """Seconds left for the search; None without a time limit."""
    if budget.max_seconds is None:
        return None
    return max(0.0, budget.max_seconds - reserved_seconds(budget, costs) - spent.seconds)


def stop(budget: Budget, spent: Spent, best: Evaluation | None, costs: Costs = UNKNOWN) -> StopReason | None:
    """The reason to ask for no further trial, or None. `best` is the best passed evaluation so far."""
    if goal_met(budget, best):
        return StopReason.GOAL
    if budget.max_trials is not None and spent.trials >= budget.max_trials:
        return StopReason.TRIALS
    if budget.max_tokens is not None and spent.usage.tokens + spent.reserved_tokens >= budget.max_tokens:
        return StopReason.TOKENS
    if budget.max_usd is not None and spent.usage.usd + spent.reserved_usd >= budget.max_usd:
        return StopReason.USD
    left = search_seconds(budget, spent, costs)
    if left is not None and left <= _typical_trial(spent, costs):
        return StopReason.TIME
    return None


def goal_met(budget: Budget, best: Evaluation | None) -> bool:
    """The lower end of the best score's interval reaches the goal."""
    if budget.goal is None or best is None or best.score_ci95 is None:
        return False
    return best.score_ci95[0] >= budget.goal


def _typical_trial(spent: Spent, costs: Costs) -> float:
    """Mean seconds of a call so far plus an evaluation: a trial begun with less left would be cut."""
    call = spent.usage.seconds / spent.trials if spent.trials else 0.0
    return call + costs.trial


def allowance(budget: Budget, spent: Spent, costs: Costs = UNKNOWN) -> Allowance:
    """What the next call may use, calls in flight deducted at their reservations."""
    tokens = usd = None
    if budget.max_tokens is not None:
        tokens = max(0, budget.max_tokens - spent.usage.tokens - spent.reserved_tokens)
    if budget.max_usd is not None:
        usd = max(Decimal(0), budget.max_usd - spent.usage.usd - spent.reserved_usd)
    left = search_seconds(budget, spent, costs)
    return Allowance(tokens=tokens, usd=usd, seconds=LONGEST_CALL if left is None else min(left, LONGEST_CALL))


class Grant(Frozen):
    """A call that fits: its output limit (None: the provider's own) and what it reserves."""

    max_output_tokens: int | None
    reserved: Usage


def grant(reserve: Callable[[int | None], Usage], allowed: Allowance) -> Grant | StopReason:
    """The largest call that fits into the allowance, or the limit that leaves no room for a useful one.

    `reserve(max_output_tokens)` is the most a call can cost; it is linear in the output limit, so that two probes tell
    how far the limit must be lowered. The answer is probed once more and never trusted beyond what it reserves.
    """
    whole = reserve(None)
    if allowed.covers(whole):
        return Grant(max_output_tokens=None, reserved=whole)
    if whole.output_tokens <= SHORTEST_REPLY:
        return allowed.short_of(whole)
    least = reserve(SHORTEST_REPLY)
    if not allowed.covers(least):
        return allowed.short_of(least)
    span = whole.output_tokens - SHORTEST_REPLY
    limit = whole.output_tokens
    if allowed.tokens is not None and whole.tokens > allowed.tokens:
        limit = min(limit, SHORTEST_REPLY + span * (allowed.tokens - least.tokens) // (whole.tokens - least.tokens))
    if allowed.usd is not None and whole.usd > allowed.usd:
        room, cost = allowed.usd - least.usd, whole.usd - least.usd
        limit = min(limit, SHORTEST_REPLY + int(span * room / cost))
    fitted = reserve(limit)
    if allowed.covers(fitted):
        return Grant(max_output_tokens=limit, reserved=fitted)
    return Grant(max_output_tokens=SHORTEST_REPLY, reserved=least)
