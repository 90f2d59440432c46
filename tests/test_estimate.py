"""Estimates: what cannot be said of a kernel that nothing measured."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from kernelsmith.estimate import Estimate, Limit
from kernelsmith.model import Evaluation
from kernelsmith.outcome import Outcome, Stage

MEMORY = Estimate(
    target="t",
    workload="w",
    microseconds=20.0,
    parts={Limit.MEMORY: 18.0, Limit.LAUNCH: 2.0},
    limit=Limit.MEMORY,
    roofline_microseconds=10.0,
)


def test_the_share_of_the_roofline_is_what_a_perfect_kernel_would_take() -> None:
    assert MEMORY.roofline_share == 0.5


def test_what_limits_a_kernel_is_one_of_its_parts() -> None:
    with pytest.raises(ValidationError, match="the limit is one of the parts"):
        Estimate(**{**MEMORY.model_dump(), "limit": Limit.MATRIX})


def test_what_ranks_a_kernel_is_weighted_as_a_score_is() -> None:
    slow = MEMORY.model_copy(update={"microseconds": 160.0, "weight": 3.0})
    passed = Evaluation(outcome=Outcome.PASSED, stage=Stage.CHECK, estimates=(MEMORY, slow))
    assert passed.standing == pytest.approx((0.5 * 0.0625**3) ** 0.25)


def test_a_candidate_that_failed_has_no_estimate() -> None:
    with pytest.raises(ValidationError, match="estimates exist only"):
        Evaluation(outcome=Outcome.CRASHED, stage=Stage.CHECK, message="gone", estimates=(MEMORY,))
