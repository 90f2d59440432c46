from __future__ import annotations

from decimal import Decimal

from kernelsmith.briefing import History, brief, failures, scores
from kernelsmith.outcome import Level
from kernelsmith.proposal import Candidate, Move, Spent, Usage
from kernelsmith.runs import Call, TrialRecord, Verdict
from kernelsmith.search.moves import Choice, to_mend
from tests.fakes import TARGET, evaluation_of, spec
from tests.test_store import call


def trial(number: int, verdict: str | None, origin: str = "openai:m", **changes: object) -> TrialRecord:
    source = f"# {verdict}\n# {number}"
    judged = Verdict(level=Level.QUICK, seed=1, evaluation=evaluation_of(source, Level.QUICK)) if verdict else None
    record = TrialRecord(number=number, candidate=Candidate(source=source, origin=origin), verdict=judged)
    return record.model_copy(update=changes)


def by_number(*trials: TrialRecord) -> dict[int, TrialRecord]:
    return {t.number: t for t in trials}


def test_newest_failure_of_form_is_mended_once() -> None:
    trials = by_number(trial(1, "compile_error"), trial(2, "wrong_values"), trial(3, "rejected"), trial(4, None))
    found = to_mend(trials, [])
    assert found is not None and found.number == 3
    second = to_mend(trials, [call(5, repairs=3)])
    assert second is not None and second.number == 1
    assert to_mend(trials, [call(5, repairs=3, status="lost"), call(6, repairs=1, status="answered")]) is None


def test_a_failed_call_was_no_repair() -> None:
    found = to_mend(by_number(trial(1, "compile_error")), [call(2, repairs=1, status="failed")])
    assert found is not None and found.number == 1


def test_what_is_not_mended() -> None:
    chain = [trial(n, "compile_error", repairs=n - 1 if n > 1 else None) for n in range(1, 5)]
    calls = [call(n, repairs=n - 1) for n in range(2, 5)]
    assert to_mend(by_number(*chain), calls) is None, "three repairs of one kernel are enough"
    assert to_mend(by_number(trial(1, "compile_error", "offline")), []) is None
    assert to_mend(by_number(trial(1, "compile_error", repeats=7)), []) is None


def test_repeats_are_neither_ranked_nor_shown() -> None:
    trials = [
        trial(1, "faster 2.0"),
        trial(2, "faster 2.0", repeats=1),
        trial(3, "timeout"),
        trial(4, "timeout", repeats=3),
    ]
    assert dict(scores(trials)) == {1: 2.0}
    assert [t.number for t in failures(trials)] == [3]


def test_brief_at_the_beginning_and_later() -> None:
    first = brief(spec(hint="big blocks"), TARGET, History(), number=1, choice=Choice(Move.DRAFT), seeds=())
    assert (first.best, first.failures, first.hint, first.trial) == ((), (), "big blocks", 1)
    trials = [trial(1, "timeout"), trial(2, "compile_error"), *[trial(n, f"faster {n}.0") for n in range(3, 8)]]
    history = History(trials, trials[:1:-1], ("a", "b"), spent=Spent(trials=7))
    later = brief(spec(), TARGET, history, number=8, choice=Choice(Move.REPAIR, trials[1]), seeds=())
    assert [t.number for t in later.best] == [5, 6, 7], "fastest last"
    assert [t.number for t in later.failures] == [1], "the one to be mended is not shown twice"
    assert later.move is Move.REPAIR and later.base is not None and later.base.number == 2 and later.tried == ("a", "b")


def test_the_mean_call_is_of_those_that_answered_and_count_tokens() -> None:
    def told(*calls: Call) -> Usage | None:
        return brief(spec(), TARGET, History(calls=calls), number=9, choice=Choice(Move.DRAFT), seeds=()).call

    def answered(number: int, tokens: int, usd: str, seconds: float) -> Call:
        usage = Usage(input_tokens=tokens, output_tokens=100, usd=Decimal(usd), seconds=seconds)
        return call(number, status="answered").model_copy(update={"usage": usage})

    free = call(3, status="answered").model_copy(update={"usage": Usage(seconds=0.1)})
    assert told() is None and told(free, call(4, status="lost")) is None
    mean = told(answered(1, 1000, "0.01", 20), answered(2, 3000, "0.03", 40), free)
    assert mean == Usage(input_tokens=2000, output_tokens=100, usd=Decimal("0.02"), seconds=30)
