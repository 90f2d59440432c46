"""From a run's history and the chosen move to what the next proposer is told. Pure functions.

Called by tune.py before every call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernelsmith.lessons.learn import idea
from kernelsmith.model import Seed
from kernelsmith.outcome import Outcome
from kernelsmith.proposal import Brief, Finding, Move, Spent, TargetFacts, Usage
from kernelsmith.runs import Call, CallStatus, RunSpec, TrialRecord
from kernelsmith.search.archive import archive
from kernelsmith.search.bottleneck import findings, worst
from kernelsmith.search.moves import Choice

BEST_SHOWN = 3
FAILURES_SHOWN = 3
STRUCTURES_SHOWN = 6
ATTEMPTS_SHOWN = 6


def scores(trials: Iterable[TrialRecord]) -> Iterator[tuple[int, float]]:
    """Number and standing of every trial that was measured or estimated, without repeats."""
    for trial in trials:
        if trial.repeats is None and trial.evaluation is not None and trial.evaluation.standing is not None:
            yield trial.number, trial.evaluation.standing


def failures(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Judged trials that did not pass, oldest first, without repeats."""
    judged = [(t, t.evaluation.outcome) for t in trials if t.repeats is None and t.evaluation is not None]
    return [t for t, outcome in judged if outcome is not Outcome.PASSED]


NOTHING_SPENT = Spent()


@dataclass(frozen=True)
class History:
    """What is behind a run; nothing at its beginning."""

    trials: Collection[TrialRecord] = ()
    ranked: Sequence[TrialRecord] = ()
    """Measured ones, fastest first."""
    tried: tuple[str, ...] = ()
    """Ids of all candidates."""
    calls: Collection[Call] = ()
    """In order of their numbers."""
    spent: Spent = NOTHING_SPENT


def brief(
    spec: RunSpec,
    target: TargetFacts,
    history: History,
    *,
    number: int,
    choice: Choice,
    seeds: tuple[Seed, ...],
    lessons: tuple[str, ...] = (),
) -> Brief:
    """What the proposer of trial `number` is told."""
    base = choice.base
    failed = [t for t in failures(history.trials) if base is None or t.number != base.number]
    found, aim = _findings(choice, target)
    return Brief(
        operator=spec.info,
        target=target,
        move=choice.move,
        base=base.trial() if base is not None else None,
        partner=choice.partner.trial() if choice.partner is not None else None,
        port=choice.port,
        best=tuple(t.trial() for t in _shown(history, choice)),
        findings=found,
        aim=aim,
        lessons=lessons,
        attempts=_attempts(history) if choice.move is not Move.REPAIR else (),
        structures=_structures(history) if choice.move is Move.DRAFT else (),
        failures=tuple(t.trial() for t in failed[-FAILURES_SHOWN:]),
        seeds=seeds,
        tried=history.tried,
        hint=spec.hint,
        budget=spec.budget,
        spent=history.spent,
        call=_mean_call(history.calls),
        trial=number,
    )


def _mean_call(calls: Collection[Call]) -> Usage | None:
    """A search without a model counts no tokens and is left out."""
    counted = [call.usage for call in calls if call.status is CallStatus.ANSWERED and call.usage.tokens]
    if not counted:
        return None
    whole = sum(counted, Usage())
    return Usage(
        input_tokens=whole.input_tokens // len(counted),
        output_tokens=whole.output_tokens // len(counted),
        usd=whole.usd / len(counted),
        seconds=whole.seconds / len(counted),
    )


def _shown(history: History, choice: Choice) -> Iterator[TrialRecord]:
    """The best, slowest first; the one that the move works on last, if it is one of those that passed."""
    base = choice.base.number if choice.base is not None else None
    worked_on = next((t for t in history.ranked if t.number == base), None)
    others = [t for t in history.ranked if t.number != base]
    yield from reversed(others[: BEST_SHOWN - (worked_on is not None)])
    if worked_on is not None:
        yield worked_on


def _findings(choice: Choice, target: TargetFacts) -> tuple[tuple[Finding, ...], Finding | None]:
    """What holds the base back, where the move is to mend that."""
    if choice.move is not Move.IMPROVE or choice.base is None or choice.base.evaluation is None:
        return (), None
    evaluation = choice.base.evaluation
    return findings(evaluation, target.units), worst(evaluation, target.units)


def _attempts(history: History) -> tuple[str, ...]:
    """The latest calls that said what they were up to, oldest first."""
    trials = {trial.number: trial for trial in history.trials}
    told = []
    for call in history.calls:
        trial, said = trials.get(call.number), idea(call.reply)
        if trial is not None and trial.evaluation is not None and said:
            base = trials.get(call.base) if call.base is not None else None
            told.append(f"trial {call.number} ({call.move}{_of(base)}): {said} -> {_end(trial)}")
    return tuple(told[-ATTEMPTS_SHOWN:])


def _of(base: TrialRecord | None) -> str:
    return "" if base is None else f" trial {base.number}, {_end(base)}"


def _end(trial: TrialRecord) -> str:
    evaluation = trial.evaluation
    if evaluation is None:
        return "not judged"
    if evaluation.score is not None:
        return f"{evaluation.score:.3f}x"
    if evaluation.estimated is not None:
        return f"estimated {evaluation.estimated:.0%} of the roofline"
    return evaluation.outcome.value


def _structures(history: History) -> tuple[str, ...]:
    """What passed so far, with the best standing of each."""
    kept = archive(history.ranked).elites[:STRUCTURES_SHOWN]
    standings = [(elite, elite.trial.evaluation.standing if elite.trial.evaluation else None) for elite in kept]
    return tuple(f"{elite.structure.words}: {standing or 0:.3f}" for elite, standing in standings)
