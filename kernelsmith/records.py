"""Everything a command prints under `--json`, as one frozen type per record; `docs/schema.json` is made of them.

Invariant: stdout of a `--json` command is these records and nothing else, one per line for `tune` and `batch`. The loop
(tune.py) speaks to the live view, to plain lines and to JSON through the same records.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Literal

from kernelsmith import diagnosis, quote
from kernelsmith.base import Frozen
from kernelsmith.compiled import Fit
from kernelsmith.estimate import Estimate
from kernelsmith.evidence import Evidence, Mismatch
from kernelsmith.faults import Fault
from kernelsmith.model import Confinement, DeviceMark, Evaluation, Timing, Verdict
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.proposal import Budget, Move, Spent, StopReason, Usage
from kernelsmith.space import Region, Where

# ---------------------------------------------------------------- tune


class TuneStarted(Frozen):
    record: Literal["run"] = "run"
    run: str
    folder: str
    operator: str
    target: str
    models: tuple[str, ...]
    budget: Budget
    resumed: bool
    unsafe_no_sandbox: bool = False
    """That flag was given: candidates may run without confinement."""
    notes: tuple[str, ...] = ()


class CallStarted(Frozen):
    """A model is being asked; its reservation is in the store."""

    record: Literal["call"] = "call"
    trial: int
    model: str
    prompt: str
    """Id of the prompt: `prompts/ID.md` in the run's folder."""
    move: Move
    base: int | None = None
    """The trial that the move works on."""
    repairs: int | None = None
    """The trial that the reply should mend."""
    reserved: Usage


class CallEnded(Frozen):
    """The reply is in the store, or there is none."""

    record: Literal["reply"] = "reply"
    trial: int
    model: str
    status: Literal["answered", "nothing", "failed", "lost"]
    usage: Usage = Usage()
    message: str = ""


class JudgingStarted(Frozen):
    record: Literal["judging"] = "judging"
    trial: int
    origin: str
    level: Level
    again: bool = False
    """A leader's second measurement, before a model is shown it."""


class JudgingWaits(Frozen):
    """The judge has no place for a trial yet, or has found one."""

    record: Literal["waiting"] = "waiting"
    trial: int
    why: str
    """Empty when it waits no more."""


class TrialJudged(Frozen):
    record: Literal["trial"] = "trial"
    trial: int
    origin: str
    level: Level
    outcome: Outcome
    stage: Stage
    message: str
    where: Where | None
    mismatch: Mismatch | None
    score: float | None
    score_ci95: tuple[float, float] | None
    estimated: float | None = None
    """Of a kernel that was not measured: the estimated share of the roofline."""
    best: bool
    """The fastest correct kernel of the run so far."""
    again: bool = False
    """It has been judged before: this is a leader's second measurement."""
    repeats: int | None = None
    """The earlier trial that is the same program, whose verdict this is."""
    kernel: str
    """Path of the kernel in the run's folder; empty when the reply held none."""
    spent: Spent


class DeviceGivenUp(Frozen):
    """A card hung and is left alone until it answers again; the run goes on if there is another one."""

    record: Literal["device"] = "device"
    trial: int | None
    """The trial that was judged on it; None if the card was bad before."""
    mark: DeviceMark


class Notice(Frozen):
    """Something a person should know that is no verdict."""

    record: Literal["notice"] = "notice"
    message: str


class Winner(Frozen):
    trial: int
    origin: str
    kernel: str
    score: float | None
    score_ci95: tuple[float, float] | None
    faster: bool
    rechecked: bool
    """Passed the full check under a fresh seed and was measured again."""
    speedup: dict[str, float]
    """Per baseline: weighted geometric mean over the workloads."""
    timings: tuple[Timing, ...]
    estimates: tuple[Estimate, ...] = ()
    """Instead of timings, where the device is not here."""


class TuneResult(Frozen):
    """The last record of `tune`."""

    record: Literal["result"] = "result"
    run: str
    folder: str
    operator: str
    target: str
    stop: StopReason
    message: str = ""
    winner: Winner | None
    goal: float | None
    goal_met: bool | None
    outcomes: dict[str, int]
    confinement: Confinement | None = None
    """What held for all candidates; None if none ran."""
    spent: Spent
    budget: Budget
    next: str
    """The command to run next."""
    exit_code: Literal[0, 1, 2, 130]


TuneRecord = (
    TuneStarted
    | CallStarted
    | CallEnded
    | JudgingStarted
    | JudgingWaits
    | TrialJudged
    | DeviceGivenUp
    | Notice
    | TuneResult
)


# ---------------------------------------------------------------- check and bench


class KernelReport(Frozen):
    """The verdict on one kernel: what `check` and `bench` print."""

    kernel: str
    outcome: Outcome
    stage: Stage
    message: str
    where: Where | None
    mismatch: Mismatch | None
    faults: tuple[Fault, ...]
    """What checked builds of its kernels found."""
    cases: int
    verified: tuple[Region, ...]
    timings: tuple[Timing, ...]
    estimates: tuple[Estimate, ...]
    """Instead of timings, where the device is not here."""
    notes: tuple[str, ...]
    reproduce: str
    confinement: Confinement | None
    """What kept it in; None where it never ran."""
    evidence: Evidence | None = None
    """What was run, how often, and what was not."""
    seed: int | None = None
    """Of inputs and repeats; `--seed` takes it."""
    also: tuple[Fit, ...] = ()
    """Its kernels on the other targets that were asked for."""

    @classmethod
    def of(cls, kernel: str, evaluation: Evaluation, seed: int) -> KernelReport:
        shared = {n: getattr(evaluation, n) for n in cls.model_fields if n not in ("kernel", "seed", "also")}
        return cls(kernel=kernel, seed=seed, **shared)


class KernelReports(Frozen):
    """`bench` of several kernels."""

    kernels: tuple[KernelReport, ...]


# ---------------------------------------------------------------- batch


class BatchItem(Frozen):
    """One operator of a suite, finished."""

    record: Literal["item"] = "item"
    name: str
    ok: bool
    run: str = ""
    target: str = ""
    score: float | None = None
    score_ci95: tuple[float, float] | None = None
    wanted: float | None = None
    """The speed-up that the suite asks for."""
    stop: StopReason | None = None
    spent: Spent = Spent()
    confinement: Confinement | None = None
    """What held for all its candidates; None if none ran."""
    message: str = ""
    """Why it is not ok."""


class BatchResult(Frozen):
    record: Literal["summary"] = "summary"
    suite: str
    items: int
    ok: int
    spent: Spent
    exit_code: Literal[0, 1, 130]


# ---------------------------------------------------------------- report and runs


class RunState(StrEnum):
    """What has become of a run, by what the store says and whether a process holds it."""

    RUNNING = "running"
    KILLED = "killed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"


class WorkloadBest(Frozen):
    """The best kernel's times on one workload."""

    workload: str
    median_ms: float
    baselines: dict[str, float]
    speedup: dict[str, float]
    verdict: Verdict


class ModelTally(Frozen):
    """What one model was asked in a run and what came of it."""

    model: str
    calls: int
    passed: int
    best: float | None
    """Its best score, or estimated share of the roofline."""
    improvement: float
    """Sum of ln(best score after / before) over its trials; the first pass of a run counts as a doubling."""
    usage: Usage
    per_dollar: float | None
    """Improvement per dollar; None where it cost none."""


class RunReport(Frozen):
    """One run as the store knows it."""

    run: str
    created: str
    """UTC, ISO 8601."""
    operator: str
    target: str
    models: tuple[str, ...]
    status: RunState
    stop: StopReason | None
    """Why the last session ended; None while it has not."""
    trials: int
    outcomes: dict[str, int]
    calls_lost: int
    winner: int | None
    score: float | None
    score_ci95: tuple[float, float] | None
    estimated: float | None = None
    """Of a winner that was not measured, since the device is not here: the estimated share of the roofline."""
    estimates: tuple[Estimate, ...] = ()
    faster: bool
    rechecked: bool
    workloads: tuple[WorkloadBest, ...]
    confinement: Confinement | None
    """What held for all candidates; None if none ran, or an older kernelsmith tuned it."""
    unsafe_no_sandbox: bool
    """That flag was given when it began or was resumed."""
    spent: Spent
    tally: tuple[ModelTally, ...] = ()
    folder: str
    foreign: bool = False
    """The operator came from elsewhere and was judged confined."""
    verified: tuple[Region, ...] = ()
    """Of the best kernel."""
    evidence: Evidence | None = None
    """What the latest verdict on the best kernel rests on."""


class Reports(Frozen):
    """What `report`, `runs list` and `runs show` print."""

    runs: tuple[RunReport, ...]


class LessonRecord(Frozen):
    """One lesson of the store; models are told it while it is `offered`."""

    id: str
    family: str
    """Of targets: Triton's back end."""
    category: str
    kind: Literal["rule", "paid", "cost", "note"]
    text: str
    code: str
    mend: str
    seen: int
    """Distinct kernels that showed it."""
    contradicted: int
    """Distinct kernels that passed although they do what it forbids."""
    edited: bool
    created: str
    offered: bool


class LessonList(Frozen):
    lessons: tuple[LessonRecord, ...]


class RunRemoved(Frozen):
    run: str
    removed: bool


class RunPath(Frozen):
    run: str
    path: str


# ---------------------------------------------------------------- export and targets


class Exported(Frozen):
    run: str
    package: str
    """Folder of the written package."""


class TargetRow(Frozen):
    name: str
    device: str
    """torch device type."""
    summary: str
    path: str
    """Its file."""
    family: str | None = None
    state: str = "ready"
    """Of its cards where one is here: ready, incomplete, given up or not allowed; else toolchain (it compiles here),
    offline (what compiles can be installed) or description only."""


class Targets(Frozen):
    targets: tuple[TargetRow, ...]


class TargetCheck(Frozen):
    name: str
    ok: bool
    message: str = ""
    """What is wrong with the file."""
    facts: int = 0
    """How many it states, its families' among them; each has a source."""


class TargetChecks(Frozen):
    targets: tuple[TargetCheck, ...]


def all_records() -> tuple[type[Frozen], ...]:
    """Every record, in the order of this file, `diagnosis` and `quote`."""
    return tuple(
        value
        for module in (globals(), vars(diagnosis), vars(quote))
        for value in module.values()
        if isinstance(value, type) and issubclass(value, Frozen) and value.__module__ == module["__name__"]
    )


def schemas() -> dict[str, dict[str, Any]]:
    """JSON schema of every record by name, field descriptions included."""
    return {record.__name__: record.model_json_schema(mode="serialization") for record in all_records()}


def schema_text() -> str:
    """What `docs/schema.json` holds."""
    return json.dumps(schemas(), indent=2) + "\n"
