"""From a run's history to the records that say what became of it. Pure functions; used by tune.py and report."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from kernelsmith.budget import goal_met
from kernelsmith.ledger import Ledger
from kernelsmith.model import OperatorRef, Timing
from kernelsmith.outcome import Level
from kernelsmith.proposal import Spent, StopReason
from kernelsmith.records import CallEnded, CallStarted, TrialJudged, TuneResult, TuneStarted, Winner
from kernelsmith.runs import Call, Folder, Run, TrialRecord
from kernelsmith.store import Store

FOREIGN = "operator from elsewhere: judged confined"


def speedups(timings: Iterable[Timing]) -> dict[str, float]:
    """Weighted geometric mean per baseline, over the workloads on which it was measured."""
    logs: dict[str, list[tuple[float, float]]] = {}
    for timing in timings:
        for name, value in timing.speedup.items():
            logs.setdefault(name, []).append((timing.workload.weight, math.log(value)))
    return {name: math.exp(sum(w * x for w, x in pairs) / sum(w for w, _ in pairs)) for name, pairs in logs.items()}


def started_record(run: Run, store: Store, *, resumed: bool) -> TuneStarted:
    return TuneStarted(
        run=run.id,
        folder=str(store.folder_of(run).path),
        operator=run.spec.info.title,
        target=run.spec.target,
        models=run.spec.models,
        budget=run.spec.budget,
        resumed=resumed,
        unsafe_no_sandbox=run.spec.unsafe_no_sandbox,
        notes=run.spec.info.notes + ((FOREIGN,) if run.spec.foreign else ()),
    )


def called_record(call: Call) -> CallStarted:
    return CallStarted(
        trial=call.number,
        model=call.model,
        prompt=call.prompt,
        move=call.move,
        base=call.base,
        repairs=call.repairs,
        reserved=call.reserved,
    )


def ended_record(call: Call, status: Literal["answered", "nothing", "failed", "lost"]) -> CallEnded:
    return CallEnded(trial=call.number, model=call.model, status=status, usage=call.usage, message=call.message)


def judged_record(trial: TrialRecord, folder: Folder, spent: Spent, *, best: bool, again: bool = False) -> TrialJudged:
    verdict = trial.verdict
    assert verdict is not None, "only a judged trial is announced"
    evaluation = verdict.evaluation
    return TrialJudged(
        trial=trial.number,
        origin=trial.candidate.origin,
        level=verdict.level,
        outcome=evaluation.outcome,
        stage=evaluation.stage,
        message=evaluation.message,
        where=evaluation.where,
        mismatch=evaluation.mismatch,
        score=evaluation.score,
        score_ci95=evaluation.score_ci95,
        estimated=evaluation.estimated,
        best=best,
        again=again,
        repeats=trial.repeats,
        kernel=str(folder.kernel(trial.number)) if trial.candidate.source else "",
        spent=spent,
    )


def winner_record(trial: TrialRecord, kernel: Path) -> Winner:
    evaluation = trial.evaluation
    assert evaluation is not None, "a winner was judged"
    return Winner(
        trial=trial.number,
        origin=trial.candidate.origin,
        kernel=str(kernel),
        score=evaluation.score,
        score_ci95=evaluation.score_ci95,
        faster=evaluation.faster,
        rechecked=trial.verdict is not None and trial.verdict.level is Level.FULL,
        speedup=speedups(evaluation.timings),
        timings=evaluation.timings,
        estimates=evaluation.estimates,
    )


def result_record(ledger: Ledger, folder: Folder, winner: TrialRecord | None) -> TuneResult:
    """The last record of a run that has just been finished."""
    run = ledger.run
    assert run.stop is not None, "a finished run has stopped"
    goal = run.spec.budget.goal
    met = goal_met(run.spec.budget, winner.evaluation if winner else None) if goal is not None else None
    return TuneResult(
        run=run.id,
        folder=str(folder.path),
        operator=run.spec.info.title,
        target=run.spec.target,
        stop=run.stop,
        message=run.message,
        winner=winner_record(winner, folder.winner if run.winner else folder.kernel(winner.number)) if winner else None,
        goal=goal,
        goal_met=met,
        outcomes={outcome.value: count for outcome, count in sorted(ledger.outcomes().items())},
        confinement=run.confinement,
        spent=ledger.spent,
        budget=run.spec.budget,
        next=next_command(run, ledger.store, won=winner is not None),
        exit_code=_exit_code(run.stop, winner, met, judged=bool(ledger.outcomes())),
    )


def _exit_code(
    stop: StopReason, winner: TrialRecord | None, met: bool | None, *, judged: bool
) -> Literal[0, 1, 2, 130]:
    """130 interrupted; 2 nothing could be asked; 0 a kernel measured faster (and the goal met), or one that fits a
    device that is not here; else 1."""
    if stop is StopReason.INTERRUPTED:
        return 130
    if stop is StopReason.FAILED and not judged:
        return 2
    found = winner.evaluation if winner is not None else None
    good = found is not None and (found.faster or bool(found.estimates))
    return 0 if good and met is not False else 1


def check_command(kernel: str, operator: OperatorRef, target: str, targets: Path | None) -> str:
    """A command line that judges a kernel again; `targets` is the folder of target files that were used first."""
    words = ["kernelsmith", "check", kernel, "--op", operator.path, "--device", target]
    for name, value in operator.overrides.items():
        words += ["--set", f"{name}={value}"]
    words += ["--foreign"] if operator.text is not None else []
    words += ["--max-bytes", str(operator.max_bytes)] if operator.max_bytes is not None else []
    words += ["--tolerance", operator.tolerance] if operator.tolerance is not None else []
    words += ["--targets", str(targets)] if targets is not None else []
    return shlex.join(words)


def next_command(run: Run, store: Store, *, won: bool) -> str:
    where = "" if store.folder == Path("runs") else f" --runs {shlex.quote(str(store.folder))}"
    if run.stop in (StopReason.INTERRUPTED, StopReason.FAILED):
        return f"kernelsmith tune --resume {run.id}{where}"
    if won:
        return f"kernelsmith export {run.id} --out {run.spec.info.title.lower()}_kernel{where}"
    return f"kernelsmith report {run.id}{where}"
