"""Repeats: how often is a candidate wrong, with which certainty, and do equal inputs give equal bits?

What real candidates do now and then, or in company, is in tests/test_cases.py (`r50` to `a53`).
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.repeat.statistics import clean_runs, interval
from kernelsmith.evaluate.repeat.tally import Left, Tally, ulp_apart
from kernelsmith.evaluate.repeat.together import Tried
from kernelsmith.evaluate.room.room import Room
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evaluate.truth.inputs import CallInputs, Case
from kernelsmith.evaluate.truth.oracle import Truth
from kernelsmith.evaluate.truth.truths import Known
from kernelsmith.evidence import Rate, Repeats, Together
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Level, Outcome
from kernelsmith.sandbox.wire.messages import OutputTensor, Structure

CASES = Path(__file__).parents[1] / "cases"
KNOWN = Known(CallInputs(Case(), (), ()), Truth((), single=True))


@pytest.fixture(scope="module")
def room():
    opened = Room("cpu")
    yield opened
    opened.close()


# ---------------------------------------------------------------- statistics


@pytest.mark.parametrize(
    ("wrong", "runs", "low", "high"),
    [
        (1, 10, 0.0025286, 0.4450161),  # R's binom.test gives these
        (5, 10, 0.1870860, 0.8129140),
        (9, 10, 0.5549839, 0.9974714),
        (11, 3000, 0.0018318, 0.0065512),
    ],
)
def test_intervals_are_those_of_clopper_and_pearson(wrong: int, runs: int, low: float, high: float) -> None:
    assert interval(wrong, runs) == pytest.approx((low, high), abs=1e-6)


@pytest.mark.parametrize("runs", [1, 20, 3000])
def test_where_all_runs_agree_the_other_end_gets_all_of_the_doubt(runs: int) -> None:
    low, high = interval(0, runs)
    assert low == 0 and (1 - high) ** runs == pytest.approx(0.05)
    assert interval(runs, runs) == pytest.approx((1 - high, 1.0))


def test_as_many_clean_runs_as_the_rule_of_three_says() -> None:
    assert clean_runs(1 / 1000) == 2995
    assert interval(0, 2995)[1] < 1 / 1000 < interval(0, 2994)[1]
    with pytest.raises(ValueError, match="5 wrong runs of 4"):
        interval(5, 4)


# ---------------------------------------------------------------- sentences


def rate(wrong: int, runs: int) -> Rate:
    return Rate(runs=runs, wrong=wrong, ci95=interval(wrong, runs))


def test_sentences_claim_what_was_shown() -> None:
    clean = Repeats(calls=rate(0, 3000), replays=rate(0, 3000))
    assert clean.rate == "3,000 calls and 3,000 replays, none wrong: fewer than 1 in 1,000 at 95 %"
    assert (clean.bits, clean.at_once) == ("", "")
    few = Repeats(calls=rate(0, 16), replays=rate(0, 1600))
    assert few.rate.endswith("fewer than 1 in 5 at 95 %")
    faulty = Repeats(calls=rate(11, 3000), replays=rate(0, 3000))
    assert faulty.rate == (
        "wrong in 11 of 3,000 calls (0.37 %, 95 % interval 0.18 % to 0.66 %), in none of 3,000 replays"
    )
    assert Repeats().rate == ""


def test_bits_and_calls_at_once_have_sentences() -> None:
    together = (Together(at_once=8, runs=64, wrong=0), Together(at_once=16, runs=64, wrong=3))
    shown = Repeats(bitwise=False, ulp=2.0, together=together)
    assert shown.bits == (
        "not bitwise reproducible: results differ in the last bits from run to run (largest difference 2 ulp)"
    )
    assert shown.at_once == "calls at once: 3 of 64 wrong with 16 at once"
    assert Repeats(together=together[:1]).at_once == "up to 8 calls at once, none wrong"
    words = Tried([*together], least=16).words(500)
    assert words.startswith("wrong only when 16 or more calls run at once (3 of 64 runs; none of 500 alone)")


# ---------------------------------------------------------------- which runs were right


def left(*values: float, shape: tuple[int, ...] | None = None) -> Left:
    memory = np.frombuffer(np.array(values, dtype=np.float32).tobytes() + bytes(64), dtype=np.uint8).copy()
    shape = (len(values),) if shape is None else shape
    output = OutputTensor(dtype="float32", shape=shape, strides=(1,), offset=0)
    return Left(memory, (), (output,), Structure(kind="tensor"))


class Judge:
    """Takes answers that begin with 1 for right, and counts those it is asked about."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, known: Known, structure: object, returned: list[torch.Tensor], after: object) -> Finding | None:
        self.asked += 1
        return None if abs(returned[0][0] - 1) < 1e-3 else Finding(Outcome.WRONG_VALUES, f"{returned[0][0]:g}")


def test_answers_that_were_judged_before_are_right_by_their_bytes() -> None:
    judge = Judge()
    tally = Tally(judge)
    assert all(tally.take(0, KNOWN, left(1.0, 2.0)) for _ in range(100))
    assert (tally.runs, tally.wrong, tally.bitwise, judge.asked) == (100, 0, True, 1)


def test_other_contents_and_other_shapes_are_judged_anew() -> None:
    judge = Judge()
    tally = Tally(judge)
    for content, answer in ((0, left(1.0, 2.0)), (1, left(1.0, 2.0)), (0, left(1.0, 2.0, shape=(1,)))):
        tally.take(content, KNOWN, answer)
    assert judge.asked == 3


def test_wrong_answers_are_judged_each_time_and_counted() -> None:
    tally = Tally(Judge())
    for value in (1.0, 7.0, 7.0, 1.0, 9.0):
        tally.take(0, KNOWN, left(value))
    assert (tally.runs, tally.wrong, tally.bitwise) == (5, 3, True)
    assert tally.finding is not None and tally.finding.message == "7"


def test_right_answers_of_other_bits_are_told_apart() -> None:
    tally = Tally(Judge())
    eps = torch.finfo(torch.float32).eps
    for value in (1.0, 1.0 + eps, 1.0, 1.0 + 3 * eps):
        assert tally.take(0, KNOWN, left(value))
    assert (tally.wrong, tally.bitwise, tally.ulp) == (0, False, 3.0)


def test_distance_in_units_in_the_last_place() -> None:
    half = torch.tensor([1.0, 2.0, 100.0], dtype=torch.float16)
    assert ulp_apart(half, torch.nextafter(half, half + 1)) == 1.0
    assert ulp_apart(torch.tensor([math.nan, math.inf]), torch.tensor([math.nan, math.inf])) == 0.0
    assert ulp_apart(torch.tensor([1, 2]), torch.tensor([3, 2])) == 0.0
    assert ulp_apart(torch.tensor([0.0]), torch.tensor([0.0])) == 0.0


# ---------------------------------------------------------------- real candidates


def verdict(room: Room, name: str, source: str, repeats: int | None) -> Evaluation:
    operator = OperatorRef(path=str(CASES / name / "op.py"))
    job = Job(operator=operator, target="cpu", source=source, level=Level.QUICK, seed=3, bench=False, repeats=repeats)
    return evaluate(job, room)


def source_of(name: str) -> str:
    return (CASES / name / "kernel.py").read_text()


def test_sums_whose_last_bits_vary_are_accepted_with_a_note(room: Room) -> None:
    found = verdict(room, "a06_atomic_sum", source_of("a06_atomic_sum"), 64)
    assert found.outcome is Outcome.PASSED
    assert any(note.startswith("not bitwise reproducible") and "ulp" in note for note in found.notes)
    assert found.evidence is not None and found.evidence.repeats is not None
    assert [one.at_once for one in found.evidence.repeats.together] == [2, 4, 8, 16, 32]


def test_a_case_that_fails_now_and_then_is_told_from_one_that_always_fails(room: Room) -> None:
    """The fault comes while cases are checked; the same call is then made again and again, and a checked build says
    why: who takes itself for the last program reads what another has not written yet."""
    often = source_of("r50_one_counter_in_300").replace("range(299)", "range(20)")
    found = verdict(room, "r50_one_counter_in_300", often, None)
    assert found.outcome is Outcome.RACE and "a checked run of its kernels finds:\n" in found.message
    assert found.message.startswith("wrong in ") and "calls (4." in found.message
    assert found.evidence is not None and found.evidence.repeats is not None
    always = source_of("r50_one_counter_in_300").replace("range(299)", "range(0)")
    assert verdict(room, "r50_one_counter_in_300", always, None).outcome is Outcome.WRONG_VALUES


def test_nothing_is_repeated_where_nobody_wants_it(room: Room) -> None:
    found = verdict(room, "a06_atomic_sum", source_of("a06_atomic_sum"), 0)
    assert found.outcome is Outcome.PASSED and found.evidence is not None and found.evidence.repeats is None
