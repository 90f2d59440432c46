"""From a run's history to what the next proposer is told, and which failed trial is worth mending. Pure functions.

Called by tune.py before every call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernelsmith.model import Seed
from kernelsmith.outcome import Outcome
from kernelsmith.proposal import Brief, Move, Spent, TargetFacts, Trial
from kernelsmith.runs import Call, CallStatus, RunSpec, TrialRecord

BEST_SHOWN = 3
FAILURES_SHOWN = 3
MOST_REPAIRS = 3
"""Repairs of one kernel, each of the one before; then the next reply starts anew."""
MENDABLE = frozenset(
    {Outcome.NO_CODE, Outcome.PATCH_FAILED, Outcome.REJECTED, Outcome.COMPILE_ERROR, Outcome.RESOURCE_LIMIT}
)
"""Failures of form: the idea has not been tried yet, and the message says what to change."""


def scores(trials: Iterable[TrialRecord]) -> Iterator[tuple[int, float]]:
    """Number and standing of every trial that was measured or estimated, without repeats."""
    for trial in trials:
        if trial.repeats is None and trial.evaluation is not None and trial.evaluation.standing is not None:
            yield trial.number, trial.evaluation.standing


def failures(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Judged trials that did not pass, oldest first, without repeats."""
    judged = [(t, t.evaluation.outcome) for t in trials if t.repeats is None and t.evaluation is not None]
    return [t for t, outcome in judged if outcome is not Outcome.PASSED]


def to_mend(trials: dict[int, TrialRecord], calls: Collection[Call]) -> TrialRecord | None:
    """The newest failed trial that deserves a repair and was not given one; None if there is none."""
    tried = {c.repairs for c in calls if c.status is not CallStatus.FAILED}
    for trial in reversed(failures(trials.values())):
        assert trial.evaluation is not None, "failures() are judged"
        searched = trial.candidate.origin.startswith("offline")
        if trial.evaluation.outcome not in MENDABLE or trial.number in tried or searched:
            continue
        if _repairs_before(trial, trials) < MOST_REPAIRS:
            return trial
    return None


def _repairs_before(trial: TrialRecord, trials: dict[int, TrialRecord]) -> int:
    count, current = 0, trial
    while current.repairs is not None and current.repairs in trials:
        count, current = count + 1, trials[current.repairs]
    return count


NOTHING_SPENT = Spent()


@dataclass(frozen=True)
class History:
    """What is behind a run; nothing at its beginning."""

    trials: Collection[TrialRecord] = ()
    ranked: Sequence[TrialRecord] = ()
    """Measured ones, fastest first."""
    tried: tuple[str, ...] = ()
    """Ids of all candidates."""
    spent: Spent = NOTHING_SPENT


def _base(repair: TrialRecord | None, history: History) -> Trial | None:
    worked_on = repair or next(iter(history.ranked), None)
    return worked_on.trial() if worked_on is not None else None


def brief(
    spec: RunSpec,
    target: TargetFacts,
    history: History,
    *,
    number: int,
    repair: TrialRecord | None,
    seeds: tuple[Seed, ...],
) -> Brief:
    """What the proposer of trial `number` is told."""
    failed = [t for t in failures(history.trials) if repair is None or t.number != repair.number]
    return Brief(
        operator=spec.info,
        target=target,
        best=tuple(t.trial() for t in reversed(history.ranked[:BEST_SHOWN])),
        failures=tuple(t.trial() for t in failed[-FAILURES_SHOWN:]),
        move=Move.REPAIR if repair else Move.IMPROVE if history.ranked else Move.DRAFT,
        base=_base(repair, history),
        seeds=seeds,
        tried=history.tried,
        hint=spec.hint,
        budget=spec.budget,
        spent=history.spent,
        trial=number,
    )
