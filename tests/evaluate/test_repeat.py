"""Repeats: how often is a candidate wrong, with which certainty, and do equal inputs give equal bits?

What real candidates do now and then, or in company, is in tests/test_cases.py (`r50` to `a53`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.repeat.causes import WAYS, Count, Replaying, cause
from kernelsmith.evaluate.repeat.repeat import Repeater
from kernelsmith.evaluate.repeat.statistics import clean_runs, interval, more_often, rate
from kernelsmith.evaluate.repeat.tally import Left, Tally, ulp_apart
from kernelsmith.evaluate.repeat.together import Tried
from kernelsmith.evaluate.repeat.verdict import Verdict, verdict
from kernelsmith.evaluate.room.room import Room
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evaluate.truth.inputs import CallInputs, Case
from kernelsmith.evaluate.truth.oracle import Truth
from kernelsmith.evaluate.truth.truths import Known
from kernelsmith.evidence import Repeats, Together
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Level, Outcome
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.wire.many import Slots
from kernelsmith.sandbox.wire.messages import Load, Order, OutputTensor, Structure
from tests.operators.files import made

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


def test_a_difference_is_shown_where_chance_seldom_makes_it() -> None:
    assert more_often((3, 4), (1, 4)) == pytest.approx(17 / 70)  # the lady who tastes tea
    assert more_often((1, 1), (0, 2999)) == pytest.approx(1 / 3000)
    assert more_often((0, 5), (3, 5)) == 1
    with pytest.raises(ValueError, match="2 wrong runs of 1"):
        more_often((2, 1), (0, 1))


# ---------------------------------------------------------------- sentences


def test_sentences_claim_what_was_shown() -> None:
    clean = Repeats(calls=rate(0, 3000), replays=rate(0, 3000))
    assert clean.rate == "3,000 calls and 3,000 replays, none wrong: fewer than 1 in 1,000 at 95 %"
    assert (clean.bits, clean.at_once) == ("", "")
    few = Repeats(calls=rate(0, 16), replays=rate(0, 1600))
    assert few.rate.endswith("fewer than 1 in 5 at 95 %")
    assert Repeats(calls=rate(0, 2)).rate == "2 calls, none wrong: too few to say how seldom it may be wrong"
    faulty = Repeats(calls=rate(11, 3000), replays=rate(0, 3000))
    assert faulty.rate == (
        "wrong in 11 of 3,000 calls (0.37 %, 95 % interval 0.18 % to 0.66 %), in none of 3,000 replays"
    )
    assert Repeats().rate == ""


def test_bits_and_calls_at_once_have_sentences() -> None:
    together = (company(8, 0), company(16, 3))
    shown = Repeats(bitwise=False, ulp=2.0, together=together)
    assert shown.bits == (
        "not bitwise reproducible: results differ in the last bits from run to run (largest difference 2 ulp)"
    )
    assert shown.at_once == "calls at once: wrong in 3 of 64 runs (4.7 %, 95 % interval 0.98 % to 13 %) with 16 at once"
    assert Repeats(together=together[:1]).at_once == (
        "up to 8 calls at once, none of 64 wrong: fewer than 1 in 21 at 95 %"
    )


def company(at_once: int, wrong: int) -> Together:
    return Together(at_once=at_once, **rate(wrong, 64).model_dump())


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


# ---------------------------------------------------------------- what wrong runs are called


def tallied(*runs: tuple[int, bool], ways: tuple[Replaying | None, ...] = (None,)) -> Tally:
    """Runs on the contents of these numbers, right or wrong, in these ways by turns."""
    tally = Tally(Judge())
    for at, (content, right) in enumerate(runs):
        tally.take(content, KNOWN, left(1.0 if right else 7.0), ways[at % len(ways)])
    return tally


CLEAN = tallied(*[(content, True) for content in range(8)] * 4)


def said(called: Tally, replayed: Tally, closer: Tally | None = None) -> Verdict:
    found = verdict(called, replayed, "RATE", closer)
    assert found is not None
    return found


def test_what_is_right_has_no_verdict() -> None:
    assert verdict(CLEAN, CLEAN, "RATE") is None
    assert not CLEAN.varies and CLEAN.contents == 8


def test_what_is_always_wrong_on_some_contents_is_not_called_nondeterministic() -> None:
    always = tallied(*[(content, content != 5) for content in range(8)] * 4)
    closer = tallied(*[(5, False)] * 16)
    assert said(always, CLEAN, closer) == Verdict(
        Outcome.WRONG_VALUES, "wrong on 1 of 8 contents, in each of 20 calls with it: 7"
    )
    two = tallied(*[(content, content > 1) for content in range(8)] * 4)
    assert said(CLEAN, two).message == "wrong on 2 of 8 contents, in each of 8 replays with them: 7"


def test_equal_inputs_with_right_and_wrong_answers_are_nondeterministic() -> None:
    varying = tallied((0, True), (0, False), (1, True))
    assert said(varying, CLEAN) == Verdict(Outcome.NONDETERMINISTIC, "RATE; the first time, 7")
    once = tallied((0, False), (1, True))
    assert said(once, CLEAN, tallied((0, True), (0, False))).outcome is Outcome.NONDETERMINISTIC


def test_one_wrong_replay_says_nothing_about_orders() -> None:
    """A quarter of all replays run in an order that is not the device's."""
    at = WAYS.index(Replaying(Order.SHUFFLED))
    found = said(CLEAN, tallied(*[(0, run != at) for run in range(3000)], ways=WAYS))
    assert found == Verdict(Outcome.NONDETERMINISTIC, "RATE; the first time, 7")


def test_an_order_that_is_always_wrong_is_named_with_its_counts() -> None:
    replayed = tallied(*[(0, WAYS[run % 12].order is Order.DEVICE) for run in range(48)], ways=WAYS)
    found = said(CLEAN, replayed)
    assert found.outcome is Outcome.RACE and "depends on the order in which programs run" in found.message
    assert "12 of 12 replays in other orders, in none of 36 in the device's own (Fisher's exact test: p = 1e-11)" in (
        found.message
    )


def test_company_of_threads_is_named_where_enough_ran_alone() -> None:
    several = [way.threads > 1 for way in WAYS]
    found = said(CLEAN, tallied(*[(0, not several[run % 12]) for run in range(120)], ways=WAYS))
    assert found.outcome is Outcome.RACE
    assert "wrong in 50 of 50 replays by several threads, in none of 40 whose programs ran one by one" in found.message
    large = {Replaying(): Count(96, 12), Replaying(threads=2): Count(96, 12), Replaying(threads=1): Count(8, 0)}
    assert cause(large) == ""  # eight that ran alone may have been lucky


def crowd(**counts: tuple[int, int]) -> Tried:
    """16 at once went wrong in 3 of 64 calls; then, by how many at once, so many right and wrong ones."""
    tried = Tried([company(8, 0), company(15, 0), company(16, 3)], tallied((0, False)).finding, least=16, below=15)
    tried.closer = {
        int(name.removeprefix("at")): tallied(*[(0, True)] * right, *[(0, False)] * wrong)
        for name, (right, wrong) in counts.items()
    }
    return tried


def test_company_of_calls_is_the_reason_where_counts_show_it() -> None:
    found = crowd(at1=(256, 0), at15=(256, 0), at16=(236, 20)).verdict()
    assert found is not None and found.outcome is Outcome.RACE
    assert found.message.startswith(
        "wrong only when 16 or more calls run at once (3 of 64 runs (4.7 %, 95 % interval 0.98 % to 13 %) with 16 at "
        "once; again, on the same contents, 20 of 256 with 16 at once, none of 256 with 15 at once, none of 256 one "
        "after the other; Fisher's exact test: p = "
    )


def test_how_few_it_takes_is_not_claimed_where_fewer_are_wrong_as_well() -> None:
    found = crowd(at1=(256, 0), at15=(255, 1), at16=(236, 20)).verdict()
    assert found is not None and found.outcome is Outcome.RACE
    assert found.message.startswith("wrong when 16 calls run at once")


def test_what_may_be_chance_is_not_blamed_on_company() -> None:
    seldom = crowd(at1=(256, 0), at15=(256, 0), at16=(255, 1)).verdict()
    assert seldom is not None and seldom.outcome is Outcome.NONDETERMINISTIC
    assert "too seldom to say that company is why" in seldom.message
    alone = crowd(at1=(0, 64), at15=(0, 64), at16=(0, 64)).verdict()
    assert alone == Verdict(Outcome.WRONG_VALUES, "wrong on 1 of 1 contents, in each of 64 calls with it: 7")


def test_an_answer_lies_in_the_slot_of_its_run() -> None:
    slots = Slots(nbytes=1024)

    def output(offset: int | None) -> OutputTensor:
        return OutputTensor(dtype="float32", shape=(64,), strides=(1,), offset=offset)

    begin = slots.outputs(1, [128])
    assert slots.holds(1, [128], output(begin)) and slots.holds(1, [128], output(None))
    assert not slots.holds(1, [128], output(begin - 1024)) and not slots.holds(1, [128], output(2048 - 128))


# ---------------------------------------------------------------- one case, over and over

TOTAL = """
N = Dim("N", 1, 4096)

@operator(x=tensor(N), workloads=[workload(N=64)])
def total(x):
    return x.sum()
"""
KERNEL = """
import torch, triton, triton.language as tl

@triton.jit
def _k(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    first = tl.load(x)
    total = tl.sum(tl.load(x + o, mask=o < n, other=0.0), 0)
    tl.store(y, RESULT)

def total(x):
    y = torch.empty((), device=x.device)
    _k[(1,)](x, y, x.numel(), B=128)
    return y
"""
CASE = Case(dims={"N": 100}, dtypes={"x": "float32"})


@contextmanager
def repeating(room: Room, folder: Path, source: str) -> Iterator[tuple[Repeater, Collector]]:
    limits, time, collector = Limits(memory_bytes=1 << 30), OwnTime(120), Collector(Level.FULL)
    with (
        closing(CandidateSession(room.zygote, limits, room.arenas, room.binaries, time)) as candidate,
        closing(LauncherSession(room.zygote, limits, room.arenas, room.binaries, time)) as launcher,
    ):
        candidate.load(Load(source=source, entry="total"), None, 60)
        operator = made(folder, TOTAL)
        checker = Checker(room.truths, operator, candidate, launcher, seed=2, time=time, collector=collector)
        yield Repeater(checker, candidate, launcher, level=Level.FULL, seed=2), collector


def test_a_fault_of_some_contents_is_no_chance(room: Room, tmp_path: Path) -> None:
    source = KERNEL.replace("RESULT", "tl.where(first > 0.0, total, total + 100.0)")
    always = r"wrong on \d+ of \d+ contents, in each of \d+ calls with them: "
    with repeating(room, tmp_path, source) as (repeater, _):
        with pytest.raises(CandidateFailure, match=always) as raised:
            repeater.check([CASE])
        failure = raised.value
        message = failure.message
        repeater.again(failure)
    assert (failure.outcome, failure.message) == (Outcome.WRONG_VALUES, message)
    assert failure.mismatch is not None


def test_what_there_was_no_time_for_is_told(room: Room, tmp_path: Path) -> None:
    with repeating(room, tmp_path, KERNEL.replace("RESULT", "total")) as (repeater, collector):
        repeater.check([CASE], most=0.0)
        collector.ran(CASE.where())
    shown = collector.evidence(0.0)
    assert shown is not None and shown.repeats is not None
    assert shown.repeats.at_once.startswith("up to 2 calls at once, none of 64 wrong: fewer than 1 in ")
    assert shown.left_out == (
        "calls at once were tried up to 2 of 32: their time was up",
        "16 of 3,000 repeats were made: their time was up",
    )


# ---------------------------------------------------------------- real candidates


def evaluated(room: Room, name: str, source: str, repeats: int | None) -> Evaluation:
    operator = OperatorRef(path=str(CASES / name / "op.py"))
    job = Job(operator=operator, target="cpu", source=source, level=Level.QUICK, seed=3, bench=False, repeats=repeats)
    return evaluate(job, room)


def source_of(name: str) -> str:
    return (CASES / name / "kernel.py").read_text()


def test_sums_whose_last_bits_vary_are_accepted_with_a_note(room: Room) -> None:
    found = evaluated(room, "a06_atomic_sum", source_of("a06_atomic_sum"), 64)
    assert found.outcome is Outcome.PASSED
    assert any(note.startswith("not bitwise reproducible") and "ulp" in note for note in found.notes)
    assert found.evidence is not None and found.evidence.repeats is not None
    assert [one.at_once for one in found.evidence.repeats.together] == [2, 4, 8, 16, 32]


def test_a_case_that_fails_now_and_then_is_told_from_one_that_always_fails(room: Room) -> None:
    """The fault comes while cases are checked; the same call is then made again and again, and a checked build says
    why: who takes itself for the last program reads what another has not written yet."""
    often = source_of("r50_one_counter_in_300").replace("range(299)", "range(20)")
    found = evaluated(room, "r50_one_counter_in_300", often, None)
    assert found.outcome is Outcome.RACE and "a checked run of its kernels finds:\n" in found.message
    assert found.message.startswith("wrong in ") and "calls (4." in found.message
    assert found.evidence is not None and found.evidence.repeats is not None
    always = source_of("r50_one_counter_in_300").replace("range(299)", "range(0)")
    assert evaluated(room, "r50_one_counter_in_300", always, None).outcome is Outcome.WRONG_VALUES


def test_nothing_is_repeated_where_nobody_wants_it(room: Room) -> None:
    found = evaluated(room, "a06_atomic_sum", source_of("a06_atomic_sum"), 0)
    assert found.outcome is Outcome.PASSED and found.evidence is not None and found.evidence.repeats is None
