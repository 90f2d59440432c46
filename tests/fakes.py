"""A scripted proposer and an in-process executor: the loop's partners without a model, a device or torch.

A kernel's text says what its verdict is: `# faster 2.0`, `# compile_error`, `# crash the judge`, ...
Also run as a program (`python -m tests.fakes RUNS LOG [RESUME]`), to be killed and resumed.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from kernelsmith.base import digest
from kernelsmith.compiled import Build, Resources
from kernelsmith.errors import InfrastructureError
from kernelsmith.estimate import Estimate, Limit
from kernelsmith.execute import Tell, quiet
from kernelsmith.model import (
    Confinement,
    Evaluation,
    Job,
    OperatorInfo,
    OperatorRef,
    Seed,
    StageSeconds,
    Timing,
    Verdict,
    Workload,
)
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.proposal import Brief, Budget, Move, Prompt, Reply, TargetFacts, Usage
from kernelsmith.propose import Request
from kernelsmith.runs import RunSpec
from kernelsmith.space import Where

CONFINED = Confinement(
    unsafe_no_sandbox=False, sound=True, held=("Landlock (ABI 7)", "seccomp"), missing=("own /proc",)
)
UNCONFINED = Confinement(
    unsafe_no_sandbox=True, sound=False, held=("resource limits",), missing=("Landlock", "seccomp")
)
FITS_HOPPER: dict[str, Any] = {
    "kernel": "tile",
    "dtypes": ("float16",),
    "resources": Resources(warps=4, threads=128, registers=64, shared_bytes=200_000, matrix_instructions={"HMMA": 8}),
}
"""A kernel that needs more shared memory than other GPUs have."""
TARGET = TargetFacts(name="fake", device="cpu", summary="no device at all")


def code(verdict: str, extra: str = "") -> str:
    """A reply with a kernel that will get this verdict."""
    return f"Here it is.\n```python\nimport triton\ndef op(x):\n    return x, '# {verdict}'\n{extra}```\n"


def timing(speedup: float, dims: dict[str, int] | None = None, width: float = 1.02) -> Timing:
    low, high = speedup / width, speedup * width
    return Timing(
        workload=Workload(dims=dims or {"N": 1024}),
        median_ms=1 / speedup,
        ci95_ms=(0.99 / speedup, 1.01 / speedup),
        n=30,
        host_us=5.0,
        baselines={"eager": 1.2, "compile": 1.0},
        speedup={"eager": speedup * 1.2, "compile": speedup},
        speedup_ci95={"eager": (low * 1.2, high * 1.2), "compile": (low, high)},
        verdict=Verdict.FASTER if low > 1 else Verdict.SLOWER if high < 1 else Verdict.INCONCLUSIVE,
    )


def evaluation_of(source: str, level: Level, seconds: float = 0.0) -> Evaluation:
    faster = re.search(r"# faster ([\d.]+)(?: then ([\d.]+|wrong))?", source)
    if faster is None:
        word = re.search(r"# (\w+)(?: at (\d+))?", source)
        outcome = Outcome(word[1]) if word else Outcome.REJECTED
        where = Where(dims={"N": int(word[2])}, replay=True) if word and word[2] else None
        return Evaluation(outcome=outcome, stage=Stage.COMPILE, message=f"because it says {outcome}", where=where)
    claim = faster[2] if level is Level.FULL and faster[2] else faster[1]
    if claim == "wrong":
        return Evaluation(outcome=Outcome.WRONG_VALUES, stage=Stage.CHECK, message="wrong at N=1")
    return Evaluation(
        outcome=Outcome.PASSED,
        stage=Stage.BENCH,
        cases=4,
        timings=(timing(float(claim)),),
        seconds=StageSeconds(total=seconds),
    )


def unmeasured(evaluation: Evaluation, target: str) -> Evaluation:
    """The same on a device that is not here: a kernel that is N times faster takes 8 / N microseconds."""
    timed = evaluation.timings[0]
    assert evaluation.score is not None
    estimate = Estimate(
        target=target,
        workload=timed.workload.label,
        microseconds=8 / evaluation.score,
        parts={Limit.MEMORY: 8 / evaluation.score},
        limit=Limit.MEMORY,
        roofline_microseconds=1.0,
        assumed=("a wind from the west",),
    )
    return evaluation.model_copy(update={"timings": (), "estimates": (estimate,), "stage": Stage.CHECK})


@dataclass
class FakeExecutor:
    """Judges by what the text says; `broken` counts down infrastructure failures."""

    broken: int = 0
    delay: float = 0.0
    confinement: Confinement = CONFINED
    jobs: list[Job] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def describe(self, operator: OperatorRef) -> OperatorInfo:
        return info(operator.path)

    def seeds(self, operator: OperatorRef) -> tuple[Seed, ...]:
        return (Seed(source="# seed", origin="inductor"),)

    def evaluate(self, job: Job, tell: Tell = quiet) -> Evaluation:
        with self.lock:
            self.jobs.append(job)
            if self.broken:
                self.broken -= 1
                raise InfrastructureError("the judge died", "run again")
        time.sleep(self.delay)
        evaluation = evaluation_of(job.source, job.level).model_copy(update={"confinement": self.confinement})
        if evaluation.outcome is not Outcome.PASSED:
            return evaluation
        if job.without_device:
            return unmeasured(evaluation, job.target)
        return evaluation.model_copy(update={"builds": tuple(Build(**FITS_HOPPER, chip=chip) for chip in job.also)})

    def close(self) -> None:
        pass


Answer = str | None | Exception
COST = Usage(input_tokens=100, output_tokens=50, usd=Decimal("0.01"))


@dataclass
class Scripted:
    """Gives its answers in order, then None. Every call costs the same; reserves twice of it."""

    answers: Iterable[Answer]
    spec: str = "openai:scripted"
    usage: Usage = COST
    priced: bool = True
    before: Callable[[Request], None] = lambda _: None
    asked: list[Request] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._answers = iter(self.answers)
        self._lock = threading.Lock()

    def reserve(self, request: Request) -> Usage:
        return self.usage + self.usage

    def propose(self, request: Request) -> Reply | None:
        with self._lock:
            self.asked.append(request)
            answer = next(self._answers, None)
        self.before(request)
        if isinstance(answer, Exception):
            raise answer
        return None if answer is None else Reply(text=answer, usage=self.usage, model=self.spec)


def info(path: str = "/op.py") -> OperatorInfo:
    source = Path(path).read_text() if Path(path).exists() else "def op(x): ..."
    return OperatorInfo(
        name="op", kind="native", path=path, digest=digest(source), source=source, doc="", signature="op(x)"
    )


def spec(budget: Budget | None = None, **changes: object) -> RunSpec:
    values: dict[str, object] = {
        "operator": OperatorRef(path="/op.py"),
        "info": info(),
        "target": "fake",
        "models": ("openai:scripted",),
        "budget": budget or Budget(max_trials=10),
        "width": 1,
        "seed": 7,
    }
    return RunSpec.model_validate(values | changes)


def render(brief: Brief) -> Prompt:
    failure = (
        brief.base.evaluation.message if brief.move is Move.REPAIR and brief.base and brief.base.evaluation else ""
    )
    return Prompt(system="be fast", user=f"trial {brief.trial} {failure}")


def main(runs: str, log: str, slow: str, resume: str = "") -> None:
    """Tune with a proposer and an executor that note every call in `log` and hang at the place named by `slow`."""
    from kernelsmith.store import Store
    from kernelsmith.tune import Tools, tune

    def note(text: str) -> None:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def before(request: Request) -> None:
        note(f"asked {request.brief.trial}")
        if slow == "call" and request.brief.trial == 2:
            note("hanging")
            time.sleep(60)

    class Noting(FakeExecutor):
        def evaluate(self, job: Job, tell: Tell = quiet) -> Evaluation:
            note(f"judging {job.level}")
            if (slow == "bench" and len(self.jobs) == 1) or (slow == "recheck" and job.level is Level.FULL):
                note("hanging")
                time.sleep(60)
            return super().evaluate(job)

    def emit(record: object) -> None:
        if slow == "reply" and getattr(record, "record", "") == "reply" and getattr(record, "trial", 0) == 2:
            note("hanging")
            time.sleep(60)

    with Store.open(Path(runs)) as store:
        run = store.find(resume) if resume else store.create(spec(Budget(max_trials=3)))
        store.lock(run)
        done = len(store.calls(run))
        proposer = Scripted([code(f"faster 1.{n}") for n in range(done + 1, 9)], before=before)
        result = tune(run, Tools(store, Noting(), (proposer,), TARGET, render, emit), resumed=bool(resume))
        note(f"{result.stop} {result.winner.trial if result.winner else None}")


if __name__ == "__main__":
    main(*sys.argv[1:])
