"""From one verdict to what the book learns of it. Called by the loop after every first verdict on a trial."""

from __future__ import annotations

from collections.abc import Mapping

from kernelsmith.lessons.book import Lessons
from kernelsmith.lessons.learn import idea, mend, observed, paid
from kernelsmith.outcome import Outcome
from kernelsmith.runs import Call, TrialRecord
from kernelsmith.search.moves import MENDABLE


def teach(
    book: Lessons,
    trial: TrialRecord,
    trials: Mapping[int, TrialRecord],
    calls: Mapping[int, Call],
    *,
    family: str,
    category: str,
) -> None:
    """`family` of the target, `category` of the operator."""
    evaluation = trial.evaluation
    if evaluation is None or trial.repeats is not None:
        return
    seen = observed(trial)
    if seen is not None:
        book.learn(family, seen)
    broken = trials.get(trial.repairs) if trial.repairs is not None else None
    if evaluation.outcome not in MENDABLE and broken is not None:
        rule = observed(broken)
        if rule is not None:
            book.mended(family, rule, mend(broken, trial))
    if evaluation.outcome is Outcome.PASSED:
        book.passed(family, trial.candidate.source, trial.candidate.id)
    call = calls.get(trial.number)
    base = trials.get(call.base) if call is not None and call.base is not None else None
    if call is not None and base is not None:
        gained = paid(trial, base, idea(call.reply), category)
        if gained is not None:
            book.learn(family, gained, category)
