"""What the nouns themselves promise: impossible states cannot be built, scores are what their docstrings say."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from kernelsmith.base import digest
from kernelsmith.evidence import Mismatch
from kernelsmith.model import Confinement, Evaluation, Timing, Verdict, Workload
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.proposal import Usage
from kernelsmith.space import Where


def timing(weight: float = 1.0, **speedup: tuple[float, float, float]) -> Timing:
    """Speed-ups per baseline as (value, low, high)."""
    return Timing(
        workload=Workload(dims={"N": 8}, weight=weight),
        median_ms=1.0,
        ci95_ms=(0.9, 1.1),
        n=12,
        host_us=10.0,
        baselines={name: value for name, (value, _, _) in speedup.items()},
        speedup={name: value for name, (value, _, _) in speedup.items()},
        speedup_ci95={name: (low, high) for name, (_, low, high) in speedup.items()},
        verdict=Verdict.INCONCLUSIVE,
    )


def passed(*timings: Timing) -> Evaluation:
    return Evaluation(outcome=Outcome.PASSED, stage=Stage.BENCH, timings=timings)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"outcome": Outcome.TIMEOUT, "message": "slow", "timings": (timing(eager=(2, 1.9, 2.1)),)}, "passed"),
        ({"outcome": Outcome.PASSED, "where": Where()}, "failed nowhere"),
        ({"outcome": Outcome.CRASHED}, "says why"),
        (
            {
                "outcome": Outcome.CRASHED,
                "message": "gone",
                "mismatch": Mismatch(output=0, index=(0,), got=1, expected=2, bound=0, count=1, total=1),
            },
            "wrong values",
        ),
    ],
)
def test_an_evaluation_that_cannot_be_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        Evaluation(stage=Stage.CHECK, **fields)


def test_the_score_is_against_the_best_baseline_of_each_workload_by_weight() -> None:
    slow_eager = timing(3.0, eager=(4.0, 3.9, 4.1), compile=(2.0, 1.9, 2.1))
    slow_compile = timing(1.0, eager=(0.5, 0.4, 0.6), compile=(8.0, 7.9, 8.1))
    score = passed(slow_eager, slow_compile).score
    assert score == pytest.approx(math.exp((3 * math.log(2.0) + math.log(0.5)) / 4))


def test_errors_of_workloads_are_independent() -> None:
    one = timing(eager=(2.0, 2.0 / 1.1, 2.0 * 1.1))
    low, high = passed(one).score_ci95 or (0, 0)
    assert (low, high) == pytest.approx((2.0 / 1.1, 2.0 * 1.1))
    low, high = passed(one, one, one, one).score_ci95 or (0, 0)
    assert high / 2.0 == pytest.approx(1.1**0.5)
    assert 2.0 / low == pytest.approx(1.1**0.5)


@pytest.mark.parametrize(("low", "faster"), [(1.01, True), (0.99, False)])
def test_faster_is_what_the_whole_interval_says(low: float, faster: bool) -> None:
    assert passed(timing(eager=(1.1, low, 1.1**2 / low))).faster is faster


def test_without_a_baseline_or_a_measurement_there_is_no_score() -> None:
    for evaluation in (passed(), passed(timing()), passed(timing(eager=(2, 1.9, 2.1)), timing())):
        assert (evaluation.score, evaluation.score_ci95, evaluation.faster) == (None, None, False)


@pytest.mark.parametrize(
    ("workload", "label"),
    [
        (Workload(), "as given"),
        (Workload(dims={"M": 1, "N": 2}, dtypes={"x": "float32", "y": "float32"}), "M=1 N=2 float32"),
        (Workload(dtypes={"x": "float32", "y": "int64"}, scalars={"p": None}), "x:float32 y:int64 p=None"),
    ],
)
def test_a_workload_has_a_short_name(workload: Workload, label: str) -> None:
    assert workload.label == label


def test_a_digest_tells_parts_apart() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") == digest(b"a")


def test_usage_adds_up() -> None:
    one = Usage(input_tokens=5, cached_input_tokens=2, output_tokens=7, usd="0.1", seconds=1.5)
    both = one + one
    assert (both.tokens, both.cached_input_tokens, str(both.usd), both.seconds) == (24, 4, "0.2", 3.0)


def test_what_held_in_all_places_is_what_can_be_claimed() -> None:
    full = Confinement(unsafe_no_sandbox=False, sound=True, held=("pid namespace", "Landlock (ABI 7)", "seccomp"))
    plain = full.model_copy(update={"held": full.held[1:], "missing": ("pid namespace",)})
    bare = Confinement(unsafe_no_sandbox=True, sound=False, held=(), missing=("seccomp",))
    assert full.weaker(None) == full
    assert full.weaker(plain) == plain.weaker(full) == plain
    both = bare.weaker(plain)
    assert (both.unsafe_no_sandbox, both.sound, both.held) == (True, False, ())
    assert set(both.missing) == {"pid namespace", "seccomp"}
    assert both.describe().startswith("NOT CONFINED, as --unsafe-no-sandbox allowed: nothing held; missing: ")
    assert plain.describe() == "Landlock (ABI 7), seccomp held; missing: pid namespace"
    assert "--unsafe-no-sandbox was given" in full.model_copy(update={"unsafe_no_sandbox": True}).describe()
