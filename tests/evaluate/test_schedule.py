"""Claims of a difference: rare where there is none, certain where there is one."""

import random

import pytest

from kernelsmith.evaluate.clock import schedule
from kernelsmith.model import Verdict


def drifting(rng: random.Random, count: int, scale: float) -> list[float]:
    """Times with 1 % jitter and a few outliers."""
    return [scale * rng.gauss(1.0, 0.01) * (1.3 if rng.random() < 0.02 else 1.0) for _ in range(count)]


def test_every_round_holds_each_name_once_in_changing_order():
    orders = list(schedule.rounds(["a", "b", "c"], 50, seed=1))
    assert all(sorted(order) == ["a", "b", "c"] for order in orders)
    assert len({tuple(order) for order in orders}) == 6
    assert orders == list(schedule.rounds(["a", "b", "c"], 50, seed=1))


def test_no_difference_is_rarely_claimed():
    rng = random.Random(3)
    claims = 0
    for trial in range(100):
        ratio = schedule.paired_ratio(drifting(rng, 40, 1.0), drifting(rng, 40, 1.0), trial)
        claims += schedule.verdict(ratio) is not Verdict.INCONCLUSIVE
    assert claims <= 12


@pytest.mark.parametrize(("scale", "verdict"), [(0.9, Verdict.FASTER), (1.1, Verdict.SLOWER)])
def test_ten_percent_is_always_seen(scale, verdict):
    rng = random.Random(4)
    for trial in range(30):
        ratio = schedule.paired_ratio(drifting(rng, 30, 1.0), drifting(rng, 30, scale), trial)
        assert schedule.verdict(ratio) is verdict
        assert ratio.low <= ratio.value <= ratio.high


def test_pairs_take_out_a_drift_that_both_share():
    rng = random.Random(5)
    drift = [1.0 + 0.01 * i for i in range(60)]
    baseline = [d * rng.gauss(1.0, 0.002) for d in drift]
    candidate = [0.97 * d * rng.gauss(1.0, 0.002) for d in drift]
    ratio = schedule.paired_ratio(baseline, candidate, 0)
    assert ratio.low > 1.02
    assert ratio.high < 1.04


def test_a_baseline_that_others_disturb_makes_no_kernel_faster():
    rng = random.Random(6)
    quiet = drifting(rng, 60, 1.0)
    disturbed = [t * (8.0 if rng.random() < 0.8 else 1.0) for t in drifting(rng, 60, 1.0)]
    ratio = schedule.paired_ratio(disturbed, quiet, 0)
    assert ratio.value > 5
    assert ratio.low < 1.05


def test_an_interval_that_touches_one_is_inconclusive():
    assert schedule.verdict(schedule.Estimate(1.02, 0.99, 1.05)) is Verdict.INCONCLUSIVE
    assert schedule.verdict(schedule.Estimate(1.002, 1.001, 1.003)) is Verdict.INCONCLUSIVE


def test_no_samples_is_an_error():
    with pytest.raises(ValueError, match="no samples"):
        schedule.median_interval([], 0)
