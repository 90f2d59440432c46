from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kernelsmith.errors import UsageError
from kernelsmith.lessons.book import Lessons
from kernelsmith.lessons.learn import Kind, idea, observed
from kernelsmith.lessons.teach import teach
from kernelsmith.model import Evaluation
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.proposal import Candidate, Move, Usage
from kernelsmith.runs import Call, CallStatus, TrialRecord, Verdict
from kernelsmith.store import Store
from tests.fakes import evaluation_of

KERNEL = "import triton\n\n\n@triton.jit\ndef k(x, n):\n    at = tl.arange(0, {})\n    tl.store(x + at, {})\n"
MESSAGE = """calling op: Triton cannot compile the kernel: at 2:9:
def k(x, n):
    at = tl.arange(0, {})
         ^
arange's range must be a power of 2 (line 6)"""


def trial(number: int, size: object, outcome: Outcome = Outcome.COMPILE_ERROR, **changes: object) -> TrialRecord:
    if outcome is Outcome.PASSED:
        evaluation = evaluation_of("# faster 1.5", Level.QUICK)
    else:
        evaluation = Evaluation(outcome=outcome, stage=Stage.COMPILE, message=MESSAGE.format(size))
    verdict = Verdict(level=Level.QUICK, seed=1, evaluation=evaluation)
    candidate = Candidate(source=KERNEL.format(size, number), origin="openai:m")
    return TrialRecord(number=number, candidate=candidate, verdict=verdict).model_copy(update=changes)


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Lessons]:
    with Store.open(tmp_path / "runs") as store:
        yield Lessons(store)


def taught(book: Lessons, *trials: TrialRecord, calls: dict[int, Call] | None = None) -> None:
    by_number = {t.number: t for t in trials}
    for one in trials:
        teach(book, one, by_number, calls or {}, family="cpu", category="rows")


def test_a_rule_is_the_front_ends_last_line_at_the_code_that_it_points_at() -> None:
    seen = observed(trial(1, 96))
    assert seen is not None
    assert (seen.kind, seen.text, seen.code) == (
        Kind.RULE,
        "arange's range must be a power of 2",
        "tl.arange(0, 96)",
    )
    assert observed(trial(1, 96, Outcome.WRONG_VALUES)) is None, "wrong values are no rule of the device"
    assert observed(trial(2, 96, repeats=1)) is None


def test_a_rule_is_offered_once_two_kernels_showed_it(book: Lessons) -> None:
    taught(book, trial(1, 96))
    taught(book, trial(1, 96))
    assert [(one.seen, one.offered) for one in book.all()] == [(1, False)], "the same kernel teaches once"
    taught(book, trial(2, 48))
    (rule,) = book.all()
    assert (rule.seen, rule.offered) == (2, True), "other numbers, the same rule"
    assert book.offered("cpu", "matmul") == ("arange's range must be a power of 2 (at `tl.arange(0, 96)`)",)
    assert book.offered("npu", "rows") == ()


def test_the_smallest_mend_is_told(book: Lessons) -> None:
    broken = trial(1, 96)
    mended = trial(2, 96, Outcome.PASSED, repairs=1)
    mended = mended.model_copy(
        update={"candidate": Candidate(source=broken.candidate.source.replace("96", "128"), origin="openai:m")}
    )
    taught(book, broken, mended)
    assert book.all()[0].mend == "`at = tl.arange(0, 96)` -> `at = tl.arange(0, 128)`"


def test_a_rule_that_kernels_contradict_is_withdrawn(book: Lessons) -> None:
    taught(book, trial(1, 96), trial(2, 96))
    assert book.all()[0].offered
    taught(book, trial(3, 128, Outcome.PASSED))
    assert book.all()[0].contradicted == 0, "other code says nothing"
    taught(book, trial(4, 96, Outcome.PASSED))
    assert [(one.contradicted, one.offered) for one in book.all()] == [(1, False)]


def test_code_with_names_of_its_own_contradicts_nothing(book: Lessons) -> None:
    taught(book, trial(1, "BLOCK"), trial(2, "BLOCK"), trial(3, "BLOCK", Outcome.PASSED))
    assert book.all()[0].offered


def test_ideas_that_paid_are_kept_with_their_ratio_for_the_kind_of_operator(book: Lessons) -> None:
    said = "Keep the row in registers.\n\n```python\nx = 1\n```"
    base, better, same = (trial(n, 64, Outcome.PASSED) for n in (1, 2, 3))
    faster = evaluation_of("# faster 2.4", Level.QUICK)
    better = better.model_copy(update={"verdict": Verdict(level=Level.QUICK, seed=1, evaluation=faster)})
    calls = {
        n: Call(
            number=n,
            model="m",
            prompt="p",
            move=Move.IMPROVE,
            base=1,
            reply=said,
            status=CallStatus.ANSWERED,
            reserved=Usage(),
        )
        for n in (2, 3)
    }
    taught(book, base, better, same, calls=calls)
    assert book.offered("cpu", "rows") == ("this paid, 1.60x: Keep the row in registers.",)
    assert book.offered("cpu", "matmul") == ()


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("One pass.\nNo scratch.\n```python\n...", "One pass. No scratch."),
        ("Wider.\n<<<<<<< SEARCH\n", "Wider."),
        ("```python\n", ""),
        ("no code", ""),
    ],
)
def test_an_idea_is_what_stands_before_the_code(reply: str, said: str) -> None:
    assert idea(reply) == said


def test_a_users_word_counts_and_stays(book: Lessons) -> None:
    note = book.add("cpu", "  blocks of\n 4096 \x1b[31mwork  ")
    assert note.words == "blocks of 4096 work" and note.offered
    taught(book, trial(1, 96))
    rule = next(one for one in book.all() if one.kind is Kind.RULE)
    book.edit(rule.id[:6], "powers of two only")
    taught(book, trial(2, 48))
    assert book.offered("cpu", "rows") == ("blocks of 4096 work", "powers of two only (at `tl.arange(0, 96)`)")
    book.remove(rule.id)
    taught(book, trial(3, 24))
    assert book.offered("cpu", "rows") == ("blocks of 4096 work",), "what was deleted does not come back"
    with pytest.raises(UsageError, match="no lesson"):
        book.find(rule.id)
    with pytest.raises(UsageError, match="without words"):
        book.add("cpu", " \n")
