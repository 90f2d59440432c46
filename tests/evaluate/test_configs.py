"""The search over configurations: one that is wrong costs itself, not the candidate."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from kernelsmith.evaluate.clock import configs
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.sandbox.wire.messages import Choice, Tunable

GATE: Any = SimpleNamespace(shared=nullcontext, exclusive=nullcontext)
VECTORS = [(Choice(kernel="k", config=n),) for n in range(3)]
FASTEST, SECOND, SLOWEST = VECTORS


class Judge:
    """Checker and bench in one: `faults` are found in a stage, by configuration; the first configuration is fastest."""

    def __init__(self, faults: dict[tuple[str, int], Outcome]) -> None:
        self.faults = faults
        self.prepared = 0

    def _fault(self, stage: str, number: int) -> None:
        if outcome := self.faults.get((stage, number)):
            raise CandidateFailure(outcome, f"{stage} of {number}", stage=Stage.CHECK)

    def variant(self, case: object, vector: Any) -> Any:
        number = vector[0].config
        self._fault("variant", number)
        self.prepared += 1
        return SimpleNamespace(number=number, plan=SimpleNamespace(canonical=lambda: str(number)))

    def forget(self, proven: object) -> None:
        self.prepared -= 1

    def lane(self, workload: int, proven: Any, baselines: object) -> Any:
        return proven

    def quick(self, lane: Any, samples: int, *, hopeless: float) -> float:
        self._fault("quick", lane.number)
        return 1.0 + lane.number

    def case(self, case: object, vector: Any) -> None:
        self._fault("case", vector[0].config)


def search(**faults: Outcome) -> tuple[Judge, Any]:
    judge: Any = Judge({(name[:-1], int(name[-1])): outcome for name, outcome in faults.items()})
    none: Any = None
    tunable = Tunable(kernel="k", configs=("a", "b", "c"), keys=())
    return judge, configs._search(judge, judge, GATE, none, 0, VECTORS, tunable, float("inf"))


@pytest.mark.parametrize("stage", ["variant", "quick", "case"])
def test_a_wrong_configuration_costs_only_itself(stage: str) -> None:
    judge, found = search(**{f"{stage}0": Outcome.WRONG_VALUES})
    assert found.best == SECOND
    assert [(t.choice.config, t.ms) for t in found.tried] == [(1, 2.0), (2, 3.0), (0, None)]
    assert judge.prepared == 0


def test_the_fastest_right_one_wins_and_none_is_a_failure() -> None:
    assert search()[1].best == FASTEST
    assert search(quick0=Outcome.WRONG_VALUES, case1=Outcome.WRONG_VALUES)[1].best == SLOWEST
    with pytest.raises(CandidateFailure, match="quick of 2"):
        search(variant0=Outcome.COMPILE_ERROR, variant1=Outcome.COMPILE_ERROR, quick2=Outcome.WRONG_VALUES)


@pytest.mark.parametrize("stage", ["variant", "quick", "case"])
def test_a_configuration_that_ends_the_candidate_is_its_end(stage: str) -> None:
    with pytest.raises(CandidateFailure, match=f"{stage} of 0"):
        search(**{f"{stage}0": Outcome.CRASHED})
