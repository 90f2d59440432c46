"""From the store to one record per run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kernelsmith.briefing import scores
from kernelsmith.errors import StoreError
from kernelsmith.records import ModelTally, Reports, RunReport, RunState, WorkloadBest
from kernelsmith.runs import CallStatus, Run, RunStatus, TrialRecord, spent
from kernelsmith.search.bandit import Tally, tallies
from kernelsmith.store import Skip, Store


def summarise(store: Store, runs: Iterable[Run], skip: Skip | None = None) -> Reports:
    """In the order given. Raises StoreError for one that cannot be read, or tells `skip` and leaves it out."""
    reports = []
    for run in runs:
        try:
            reports.append(_report(store, run))
        except StoreError as error:
            if skip is None:
                raise
            skip(error)
    return Reports(runs=tuple(reports))


def _report(store: Store, run: Run) -> RunReport:
    calls, trials = store.calls(run), store.trials(run)
    measured = dict(scores(trials))
    number = run.winner or max(measured, key=lambda n: measured[n], default=None)
    chosen = next((t for t in trials if t.number == number), None)
    evaluation = chosen.evaluation if chosen else None
    return RunReport(
        run=run.id,
        created=run.created,
        operator=run.spec.info.title,
        target=run.spec.target,
        models=run.spec.models,
        status=_status(store, run),
        stop=run.stop,
        trials=len(trials),
        outcomes=dict(sorted(Counter(t.evaluation.outcome.value for t in trials if t.evaluation).items())),
        calls_lost=sum(call.status is CallStatus.LOST for call in calls),
        winner=run.winner,
        score=evaluation.score if evaluation else None,
        score_ci95=evaluation.score_ci95 if evaluation else None,
        estimated=evaluation.estimated if evaluation else None,
        estimates=evaluation.estimates if evaluation else (),
        faster=evaluation is not None and evaluation.faster,
        rechecked=chosen is not None and chosen.rechecked,
        workloads=_workloads(chosen),
        confinement=run.confinement,
        unsafe_no_sandbox=run.spec.unsafe_no_sandbox,
        spent=spent(calls, trials, run.seconds),
        tally=tuple(map(_tally, tallies(calls, {t.number: t for t in trials}, run.spec.budget))),
        folder=str(store.folder_of(run).path),
        foreign=run.spec.foreign,
        verified=evaluation.verified if evaluation else (),
        evidence=evaluation.evidence if evaluation else None,
    )


def _tally(known: Tally) -> ModelTally:
    return ModelTally(**known.model_dump(exclude={"cost", "usage"}), usage=known.usage, per_dollar=known.per_dollar)


def _status(store: Store, run: Run) -> RunState:
    """A run that says it is running, and that no process holds, was killed."""
    if run.status is RunStatus.RUNNING and not store.held(run):
        return RunState.KILLED
    return RunState(run.status.value)


def _workloads(trial: TrialRecord | None) -> tuple[WorkloadBest, ...]:
    if trial is None or trial.evaluation is None:
        return ()
    return tuple(
        WorkloadBest(
            workload=t.workload.label,
            median_ms=t.median_ms,
            baselines=t.baselines,
            speedup=t.speedup,
            verdict=t.verdict,
        )
        for t in trial.evaluation.timings
    )
