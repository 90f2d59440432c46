from __future__ import annotations

import math
from decimal import Decimal

import pytest

from kernelsmith.proposal import Budget, Usage
from kernelsmith.runs import Call, CallStatus, TrialRecord
from kernelsmith.search.bandit import Tally, order, tallies
from tests.search.test_moves import failed, measured

BUDGET = Budget(max_usd=Decimal(1), max_trials=100)


def call(number: int, model: str, usd: str = "0", status: CallStatus = CallStatus.ANSWERED) -> Call:
    usage = Usage(input_tokens=10, usd=Decimal(usd))
    return Call(number=number, model=model, prompt="p", status=status, reserved=usage, usage=usage)


def told(*pairs: tuple[Call, TrialRecord | None]) -> dict[str, Tally]:
    trials = {t.number: t for _, t in pairs if t is not None}
    return {tally.model: tally for tally in tallies([c for c, _ in pairs], trials, BUDGET)}


def test_a_tally_tells_what_was_asked_paid_and_gained() -> None:
    known = told(
        (call(1, "cheap", "0.01"), failed(1)),
        (call(2, "cheap", "0.01"), measured(2, 1.0)),
        (call(3, "strong", "0.25"), measured(3, 2.0)),
        (call(4, "strong", "0.25"), measured(4, 1.5)),
        (call(5, "strong", "0.25", CallStatus.FAILED), None),
    )
    cheap, strong = known["cheap"], known["strong"]
    assert (cheap.calls, cheap.passed, cheap.best) == (2, 1, 1.0)
    assert cheap.improvement == pytest.approx(math.log(2)), "the first that passes counts as a doubling"
    assert (strong.calls, strong.passed, strong.best) == (2, 2, 2.0), "a call that failed was none"
    assert strong.improvement == pytest.approx(math.log(2)) and strong.usage.usd == Decimal("0.5")
    assert strong.per_dollar == pytest.approx(2 * math.log(2)) and strong.cost == pytest.approx(0.5)


def test_everybody_is_asked_once_and_then_who_brings_most_for_its_share() -> None:
    models = ["cheap", "strong", "new"]
    known = told((call(1, "cheap", "0.01"), measured(1, 1.0)), (call(2, "strong", "0.5"), measured(2, 1.1)))
    assert order(models, []) == [0, 1, 2], "as they were named"
    assert order(models, known.values()) == [2, 0, 1]


def test_who_stops_paying_is_asked_less_and_who_was_asked_little_again() -> None:
    pairs = [(call(1, "a", "0.01"), measured(1, 1.0)), (call(2, "b", "0.01"), measured(2, 1.9))]
    pairs += [(call(n, "b", "0.01"), measured(n, 1.5)) for n in range(3, 30)]
    assert order(["b", "a"], told(*pairs).values())[0] == 1


def test_calls_in_flight_count() -> None:
    known = told(*[(call(n, "a", "0.01", CallStatus.INTENT), None) for n in (1, 2)], (call(3, "b", "0.01"), None))
    assert known["a"].calls == 2 and known["a"].usage.usd == Decimal("0.02")
    assert order(["a", "b"], known.values()) == [1, 0]


def test_a_free_search_that_finds_nothing_does_not_starve_a_model_that_does() -> None:
    pairs = [(call(n, "offline"), measured(n, 1.0)) for n in range(1, 9)]
    pairs += [(call(9, "strong", "0.02"), measured(9, 1.5))]
    assert order(["offline", "strong"], told(*pairs).values())[0] == 1
