from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from kernelsmith.model import Seed
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.proposal import Candidate, Move, Usage
from kernelsmith.runs import Call, CallStatus, TrialRecord, Verdict
from kernelsmith.search.archive import archive
from kernelsmith.search.moves import CYCLE, MOST_ATTEMPTS, Choice, Past, next_move
from tests.fakes import evaluation_of, timing

KERNEL = "import triton\n@triton.jit\ndef k(x):\n"
FLAT = KERNEL + "    tl.store(x, tl.load(x))\n"
LOOPED = KERNEL + "    for i in range(9):\n        tl.store(x, tl.load(x))\n"
TWICE = KERNEL + "    tl.store(x, tl.load(x) + tl.load(x))\n"
LONG = FLAT + "".join(f"A{n} = {n}\n" for n in range(99))
PORTS = (Seed(source="# elsewhere", origin="softmax on nvidia-h100"), Seed(source="# far", origin="x"))


def measured(number: int, speedups: float | Sequence[float], source: str = FLAT, **changes: object) -> TrialRecord:
    each = [speedups] if isinstance(speedups, int | float) else speedups
    timings = tuple(timing(s, dims={"N": 2**n}) for n, s in enumerate(each))
    evaluation = evaluation_of("# faster 1.0", Level.QUICK).model_copy(update={"timings": timings})
    return _trial(number, f"{source}# {number}\n", evaluation, **changes)


def failed(number: int, outcome: Outcome = Outcome.COMPILE_ERROR, **changes: object) -> TrialRecord:
    return _trial(number, f"{FLAT}# {number}\n", evaluation_of(f"# {outcome.value}", Level.QUICK), **changes)


def _trial(number: int, source: str, evaluation: object, **changes: object) -> TrialRecord:
    verdict = Verdict.model_validate({"level": Level.QUICK, "seed": 1, "evaluation": evaluation})
    candidate = Candidate(source=source, origin="openai:m")
    return TrialRecord(number=number, candidate=candidate, verdict=verdict).model_copy(update=changes)


def call(number: int, choice: Choice, status: CallStatus = CallStatus.ANSWERED) -> Call:
    """What the loop writes down of a choice."""
    base = choice.base.number if choice.base else None
    return Call(
        number=number,
        model="openai:m",
        prompt="p",
        move=choice.move,
        base=base,
        parents=tuple(t.candidate.id for t in choice.shown),
        repairs=base if choice.move is Move.REPAIR else None,
        status=status,
        reserved=Usage(),
    )


def past(trials: Iterable[TrialRecord], calls: Iterable[Call] = (), ports: Sequence[Seed] = ()) -> Past:
    by_number = {t.number: t for t in trials}
    passed = [t for t in by_number.values() if t.evaluation is not None and t.evaluation.score is not None]
    ranked = sorted(passed, key=lambda t: -(t.evaluation.score or 0) if t.evaluation else 0)
    return Past(by_number, ranked, tuple(calls), ports)


def test_the_first_call_drafts() -> None:
    assert next_move(past([])) == Choice(Move.DRAFT)


def test_a_failure_of_form_is_mended_and_one_of_values_is_not() -> None:
    broken = failed(1)
    assert next_move(past([broken])) == Choice(Move.REPAIR, broken)
    assert next_move(past([failed(1, Outcome.WRONG_VALUES)])).move is Move.DRAFT
    assert next_move(past([broken], [call(2, Choice(Move.REPAIR, broken))])).move is Move.DRAFT
    assert next_move(past([broken]), may={Move.DRAFT}).move is Move.DRAFT


def test_a_kernel_from_elsewhere_is_brought_over_when_drafts_did_not_pass() -> None:
    wrong = failed(1, Outcome.WRONG_VALUES)
    assert next_move(past([], ports=PORTS)).move is Move.DRAFT
    chosen = next_move(past([wrong], [call(1, Choice(Move.DRAFT))], PORTS))
    assert (chosen.move, chosen.port) == (Move.PORT, PORTS[0])
    after = [call(1, Choice(Move.DRAFT)), call(2, chosen)]
    assert next_move(past([wrong, failed(2, Outcome.WRONG_VALUES)], after, PORTS)).port == PORTS[1]


def moves(trials: list[TrialRecord], count: int, ports: Sequence[Seed] = ()) -> list[Choice]:
    """The choices of so many calls that all come to nothing."""
    calls: list[Call] = []
    chosen: list[Choice] = []
    for step in range(count):
        chosen.append(next_move(past(trials, calls, ports)))
        calls.append(call(100 + step, chosen[-1]))
    return chosen


def test_the_cycle_makes_every_move_and_mostly_improves_the_best() -> None:
    both = [measured(1, (2.0, 1.0), LONG), measured(2, (1.0, 1.5), LOOPED)]
    chosen = moves(both, len(CYCLE), PORTS[:1])
    assert [c.move for c in chosen] == list(CYCLE)
    assert [[t.number for t in c.shown] for c in chosen if c.move is Move.RECOMBINE] == [[1, 2]]
    improved = [c.base.number for c in chosen if c.move is Move.IMPROVE and c.base]
    assert improved[:MOST_ATTEMPTS] == [1] * MOST_ATTEMPTS, "what brings nothing three times rests"
    assert set(improved) == {1, 2}


def test_moves_that_cannot_be_made_are_improvements() -> None:
    chosen = moves([measured(1, 2.0)], 5)
    assert [c.move for c in chosen] == [Move.IMPROVE] * 3 + [Move.DRAFT, Move.IMPROVE]


def test_two_calls_at_once_work_on_two_lines() -> None:
    trials = [measured(1, 2.0), measured(2, 1.5, LOOPED), measured(3, 1.2, TWICE)]
    calls = [call(4, Choice(Move.IMPROVE, trials[0]), CallStatus.INTENT)]
    assert next_move(past(trials, calls)).base == trials[1]


def test_an_improvement_that_paid_is_the_line_from_then_on() -> None:
    trials = [measured(1, 1.5), measured(2, 2.0)]
    calls = [call(2, Choice(Move.IMPROVE, trials[0]))]
    assert next_move(past(trials, calls)).base == trials[1]


@pytest.mark.parametrize("status", [CallStatus.FAILED, CallStatus.NOTHING])
def test_calls_without_a_reply_were_no_attempts(status: CallStatus) -> None:
    best = measured(1, 2.0)
    calls = [call(n, Choice(Move.IMPROVE, best), status) for n in range(2, 9)]
    assert next_move(past([best], calls)) == Choice(Move.IMPROVE, best)


def test_the_archive_keeps_the_best_of_every_structure_and_workload() -> None:
    flat, looped, slower = measured(1, (2.0, 1.0)), measured(2, (1.0, 1.5), LOOPED), measured(3, (1.5, 0.5))
    kept = archive([flat, looped, slower])
    assert [e.trial for e in kept.elites] == [flat, looped]
    assert kept.specialists == {"N=1": flat, "N=2": looped}
    assert kept.partner(flat) == looped
    assert archive([flat, measured(4, (1.0, 0.9), LOOPED)]).partner(flat) is None, "it is better nowhere"


def test_an_unparsed_reply_is_mended_too() -> None:
    none = failed(1, Outcome.NO_CODE)
    assert none.evaluation is not None and none.evaluation.stage is Stage.COMPILE
    assert next_move(past([none])).base == none
