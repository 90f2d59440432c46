"""Extra runs are counted, remembered and limited."""

from __future__ import annotations

import pytest

from kernelsmith.evaluate.region.runs import Runs, SpentError
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.outcome import Outcome

ONE, OTHER = Case(dims={"N": 1}), Case(dims={"N": 2})


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_case_is_run_once() -> None:
    asked = []

    def probe(case: Case) -> Outcome | None:
        asked.append(case)
        return Outcome.CRASHED if case == ONE else None

    runs = Runs(probe, seconds=1.0, clock=Clock())
    assert [runs.outcome(ONE), runs.outcome(ONE), runs.wrong(ONE), runs.wrong(OTHER)] == [
        *(Outcome.CRASHED, Outcome.CRASHED),
        *(True, False),
    ]
    assert asked == [ONE, OTHER] and runs.count == 2
    assert {case.dims["N"]: wrong for case, wrong in runs.known()} == {1: True, 2: False}


def test_no_more_than_so_many_but_what_is_known_stays() -> None:
    runs = Runs(lambda case: None, seconds=1.0, most=1, clock=Clock())
    assert not runs.wrong(ONE)
    with pytest.raises(SpentError):
        runs.wrong(OTHER)
    assert not runs.wrong(ONE)


def test_none_is_begun_when_the_time_is_up() -> None:
    clock = Clock()
    runs = Runs(lambda case: None, seconds=1.0, clock=clock)
    assert not runs.wrong(ONE)
    clock.now = 1.0
    with pytest.raises(SpentError):
        runs.wrong(OTHER)
