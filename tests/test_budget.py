from __future__ import annotations

import random
from collections.abc import Callable
from decimal import Decimal

import pytest

from kernelsmith.budget import (
    Allowance,
    Costs,
    Grant,
    allowance,
    goal_met,
    grant,
    reserved_seconds,
    search_seconds,
    stop,
)
from kernelsmith.model import Evaluation
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.proposal import Budget, Spent, StopReason, Usage
from tests.fakes import timing


def passed(speedup: float = 1.5) -> Evaluation:
    return Evaluation(outcome=Outcome.PASSED, stage=Stage.BENCH, timings=(timing(speedup),))


@pytest.mark.parametrize(
    ("budget", "spent", "reason"),
    [
        (Budget(), Spent(trials=10**6, seconds=10**6), None),
        (Budget(max_trials=3), Spent(trials=2), None),
        (Budget(max_trials=3), Spent(trials=3), StopReason.TRIALS),
        (Budget(max_tokens=100), Spent(usage=Usage(input_tokens=50), reserved_tokens=50), StopReason.TOKENS),
        (
            Budget(max_usd=Decimal(1)),
            Spent(usage=Usage(usd=Decimal("0.6")), reserved_usd=Decimal("0.4")),
            StopReason.USD,
        ),
        (Budget(max_seconds=100), Spent(seconds=91), StopReason.TIME),
        (Budget(max_seconds=100), Spent(seconds=80), None),
    ],
)
def test_limits(budget: Budget, spent: Spent, reason: StopReason | None) -> None:
    assert stop(budget, spent, None) is reason


def test_goal_needs_the_lower_end_of_the_interval() -> None:
    assert goal_met(Budget(goal=1.4), passed(1.5))
    assert not goal_met(Budget(goal=1.5), passed(1.5))
    assert stop(Budget(goal=1.4), Spent(), passed(1.5)) is StopReason.GOAL


def test_reserve_is_a_tenth_and_at_least_a_recheck_and_never_more_than_half() -> None:
    budget = Budget(max_seconds=100)
    assert reserved_seconds(budget, Costs()) == 10
    assert reserved_seconds(budget, Costs(recheck=24)) == 24
    assert reserved_seconds(budget, Costs(recheck=240)) == 50
    assert reserved_seconds(Budget(), Costs(recheck=24)) == 0
    assert search_seconds(budget, Spent(seconds=30)) == 60


def test_no_trial_begins_that_would_be_cut() -> None:
    calls = Spent(trials=4, usage=Usage(seconds=40), seconds=75)
    assert stop(Budget(max_seconds=100), calls, None) is None
    assert stop(Budget(max_seconds=100), calls.model_copy(update={"seconds": 81}), None) is StopReason.TIME
    assert stop(Budget(max_seconds=100), calls, None, Costs(trial=6)) is StopReason.TIME
    assert stop(Budget(max_seconds=100), calls, None, Costs(recheck=16)) is StopReason.TIME


def test_allowance_deducts_calls_in_flight() -> None:
    spent = Spent(
        usage=Usage(input_tokens=10, usd=Decimal("0.1")), reserved_usd=Decimal("0.2"), reserved_tokens=5, seconds=50
    )
    allowed = allowance(Budget(max_tokens=100, max_usd=Decimal(1), max_seconds=100), spent)
    assert (allowed.tokens, allowed.usd, allowed.seconds) == (85, Decimal("0.7"), 40)
    assert allowance(Budget(), spent) == Allowance()


def priced(input_tokens: int, most: int, price_in: int, price_out: int) -> Callable[[int | None], Usage]:
    """Reservations of a model with these prices, in millionths of a dollar per token."""

    def reserve(limit: int | None) -> Usage:
        output = most if limit is None else min(limit, most)
        usd = Decimal(input_tokens * price_in + output * price_out) / 10**6
        return Usage(input_tokens=input_tokens, output_tokens=output, usd=usd)

    return reserve


def test_grant_never_exceeds_the_allowance_and_uses_most_of_it() -> None:
    rng = random.Random(1)
    shrunk = 0
    for _ in range(500):
        reserve = priced(rng.randint(0, 5000), rng.randint(1, 9000), rng.randint(0, 40), rng.randint(0, 90))
        tokens = rng.choice([None, rng.randint(0, 15000)])
        usd = rng.choice([None, Decimal(rng.randint(0, 500)) / 1000])
        allowed = Allowance(tokens=tokens, usd=usd)
        granted = grant(reserve, allowed)
        if isinstance(granted, StopReason):
            assert not allowed.covers(reserve(512))
            continue
        assert isinstance(granted, Grant) and allowed.covers(granted.reserved)
        assert granted.reserved == reserve(granted.max_output_tokens)
        if granted.max_output_tokens is not None:
            shrunk += 1
            assert not allowed.covers(reserve(int(granted.max_output_tokens * 1.01) + 2)), "it could have been larger"
    assert shrunk > 20


def test_grant_says_which_limit_leaves_no_room() -> None:
    cost = Usage(input_tokens=100, output_tokens=100, usd=Decimal("0.5"))
    assert grant(lambda _: cost, Allowance(usd=Decimal("0.4"))) is StopReason.USD
    assert grant(lambda _: cost, Allowance(tokens=150)) is StopReason.TOKENS
