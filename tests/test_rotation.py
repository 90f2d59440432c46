"""Who is asked next: in turn, after a rest that grows, and no more once it is hopeless."""

from __future__ import annotations

import pytest

from kernelsmith import rotation
from kernelsmith.errors import ProviderError
from kernelsmith.proposal import StopReason
from kernelsmith.rotation import Rotation
from tests.fakes import Scripted

DOWN = ProviderError("cannot connect", passing=True)
REFUSED = ProviderError("status 401", "set the key")


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(rotation, "time", clock)
    return clock


def of(*specs: str) -> Rotation:
    return Rotation(tuple(Scripted([], spec=spec) for spec in specs), answered=specs)


def test_rests_grow_until_it_is_retired(clock: Clock) -> None:
    turns = of("a")
    for rest in (5, 15, 45, 135):
        assert turns.next() == 0
        assert f"a is asked again in {rest} s" in turns.failed(0, DOWN, None)
        clock.now += rest - 1
        assert turns.next() is None and turns.resting
        clock.now += 1
    assert "5 times in a row" in turns.failed(0, DOWN, None)
    assert turns.next() is None and not turns.resting
    assert (turns.reason, turns.message) == (StopReason.FAILED, "cannot connect")


def test_an_answer_ends_an_outage(clock: Clock) -> None:
    turns = of("a")
    for _ in range(9):
        assert "in 5 s (failure 1 of 5 in a row)" in turns.failed(0, DOWN, None)
        turns.replied(0)
        assert turns.next() == 0 and turns.message == ""


def test_calls_that_were_in_flight_together_fail_as_one(clock: Clock) -> None:
    turns = of("a")
    for _ in range(9):
        assert "failure 1 of 5" in turns.failed(0, DOWN, None)
    clock.now += 5
    assert "failure 2 of 5" in turns.failed(0, DOWN, None)


def test_a_rest_is_bounded_by_the_time_left_and_not_shorter_than_the_server_asks(clock: Clock) -> None:
    assert "in 3 s" in of("a").failed(0, DOWN, 6.0)
    limited = ProviderError("status 429", passing=True, wait=90.0)
    assert "in 90 s" in of("a").failed(0, limited, None)
    assert "in 60 s" in of("a").failed(0, limited, 120.0)


def test_others_go_on_while_one_rests_and_a_refusal_is_for_good(clock: Clock) -> None:
    turns = of("a", "b", "c")
    turns.failed(0, DOWN, None)
    assert "b is not asked again in this session: status 401 (set the key)" in turns.failed(1, REFUSED, None)
    assert [turns.next() for _ in range(3)] == [2, 2, 2]
    clock.now += 5
    assert turns.next() == 0
    assert turns.next([2, 0, 1]) == 2, "in the order that is asked for"
    assert turns.next([1]) is None


def test_who_rests_but_does_not_fit_into_the_budget_is_not_waited_for(clock: Clock) -> None:
    turns = of("a")
    turns.failed(0, DOWN, None)
    turns.idle[0] = StopReason.USD
    assert not turns.resting and turns.reason is StopReason.USD
