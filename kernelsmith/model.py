"""The nouns of judging: what an operator is, what a judge is asked, and what a candidate got.

Frozen pydantic types that everyone may import (no torch). Validators make impossible states unbuildable: timings exist
only for a candidate that passed, a mismatch only for wrong values. What is proposed and spent is in proposal.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from pathlib import PurePath
from typing import Literal, Self

from pydantic import Field, model_validator

from kernelsmith.base import Frozen, Scalar
from kernelsmith.compiled import Build, Chip, GridLimits
from kernelsmith.errors import UsageError
from kernelsmith.estimate import Counts, Estimate
from kernelsmith.evidence import Evidence, Mismatch
from kernelsmith.faults import Fault
from kernelsmith.outcome import Level, Outcome, Stage
from kernelsmith.space import Region, Sweep, Where
from kernelsmith.tolerances import Policy

# ---------------------------------------------------------------- operators


class OperatorRef(Frozen):
    """Which operator, as the user named it; the judge loads it."""

    path: str
    """File path of an operator file or a KernelBench problem."""
    overrides: dict[str, Scalar] = {}
    """`--set NAME=VALUE`: module constants of a KernelBench file to replace."""
    max_bytes: int | None = None
    """`--max-bytes`: shrink the largest dims of a KernelBench file until its inputs fit."""
    text: str | None = None
    """The file's text, where it comes out of a run instead of the file: then `path` only names it."""
    tolerance: str | None = None
    """`--tolerance`: name of the tolerance policy that answers are held to, whatever the file says."""
    policies: tuple[Policy, ...] = ()
    """The team's own policies, so that a verdict does not depend on the settings of the machine that judges."""


class DimInfo(Frozen):
    name: str
    low: int
    high: int


class ArgumentInfo(Frozen):
    """One parameter of the operator, described in words for prompts and reports."""

    name: str
    kind: Literal["tensor", "list", "scalar"]
    shape: str = ""
    """Symbolic, for example `(M, 2 * N)`."""
    dtypes: tuple[str, ...] = ()
    layouts: tuple[str, ...] = ()
    values: str = ""
    optional: bool = False


class Workload(Frozen):
    """One tuned point of the input space."""

    dims: dict[str, int] = {}
    dtypes: dict[str, str] = {}
    scalars: dict[str, Scalar | None] = {}
    weight: float = Field(default=1.0, gt=0)

    @property
    def label(self) -> str:
        one = set(self.dtypes.values())
        parts = [f"{k}={v}" for k, v in self.dims.items()]
        parts += one if len(one) == 1 else [f"{k}:{v}" for k, v in self.dtypes.items()]
        parts += [f"{k}={v}" for k, v in self.scalars.items()]
        return " ".join(parts) or "as given"


class OperatorInfo(Frozen):
    """What the controller knows of an operator without importing torch."""

    name: str
    """Name of the function a candidate must define (or `ModelNew`)."""
    kind: Literal["native", "kernelbench"]
    path: str
    digest: str
    source: str
    doc: str
    signature: str
    """Call signature of the candidate's entry point, as Python text."""
    dims: tuple[DimInfo, ...] = ()
    relations: tuple[str, ...] = ()
    arguments: tuple[ArgumentInfo, ...] = ()
    workloads: tuple[Workload, ...] = ()
    mutates: tuple[str, ...] = ()
    ops: tuple[str, ...] = ()
    """The aten operators that the reference calls, in order of first use; the operator's category follows from them."""
    notes: tuple[str, ...] = ()
    """Things the user should be told, such as dims that `--max-bytes` shrank."""

    def refuse_impossible(self, sweeps: Sequence[Sweep]) -> None:
        """Raises UsageError for a dim that the operator does not have, or sizes outside its range."""
        dims = {dim.name: dim for dim in self.dims}
        for sweep in sweeps:
            dim = dims.get(sweep.name)
            if dim is None:
                named = f"its dims: {', '.join(dims)}" if dims else "it declares no dims, so there is nothing to walk"
                raise UsageError(f"--sweep {sweep}: {self.title} has no dim {sweep.name}", named)
            if sweep.low < dim.low or sweep.high > dim.high:
                hint = f"{dim.name} is declared as {dim.low}..{dim.high}"
                raise UsageError(f"--sweep {sweep}: outside of the declared range", hint)

    @property
    def title(self) -> str:
        """What a person calls it: every KernelBench problem defines the same class, so the file names it."""
        return self.name if self.kind == "native" else PurePath(self.path).stem.strip("_")


# ---------------------------------------------------------------- verdicts


class Verdict(StrEnum):
    FASTER = "faster"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"


class Timing(Frozen):
    """One workload, measured beside its baselines in the same interleaved run."""

    workload: Workload
    median_ms: float = Field(gt=0)
    """Replay of the launch plan; without the host function's Python."""
    ci95_ms: tuple[float, float]
    n: int = Field(gt=0)
    host_us: float = Field(ge=0)
    """Python overhead of one call of the host function, microseconds; part of the speed-ups."""
    baselines: dict[str, float]
    """Median milliseconds per baseline (`eager`, `compile`, `baseline`)."""
    speedup: dict[str, float]
    """Baseline time over (replay + host overhead), from the median of paired log ratios."""
    speedup_ci95: dict[str, tuple[float, float]]
    verdict: Verdict
    """Against the best baseline."""
    roofline: float | None = None
    """Share of the target's measured peak bandwidth, 0..1, where the bytes are known."""

    @property
    def best_baseline(self) -> str:
        return min(self.baselines, key=lambda name: self.baselines[name])


class ConfigChoice(Frozen):
    """The configuration of one autotuned kernel that won on one workload."""

    kernel: str
    """Name of the `@triton.jit` function."""
    index: int
    """Position in the candidate's own `configs` list."""
    text: str
    """As Python, for example `{'BLOCK': 1024}, num_warps=4`."""


class ConfigTime(Frozen):
    """One configuration of one autotuned kernel on one workload, the others at the best that was known."""

    kernel: str
    text: str
    """As Python, for example `{'BLOCK': 1024}, num_warps=4`."""
    workload: str
    ms: float | None = Field(default=None, gt=0)
    """Of a few samples, good for comparing; None: it failed there, or made no difference to another one."""


class WorkloadChoice(Frozen):
    """Winning configurations for one workload; other shapes use the nearest workload in log space."""

    workload: Workload
    configs: tuple[ConfigChoice, ...]


class StageSeconds(Frozen):
    """Wall seconds per stage of one evaluation: what the loop's overhead is measured against."""

    compile: float = 0.0
    check: float = 0.0
    bench: float = 0.0
    total: float = 0.0


class DeviceMark(Frozen):
    """A card that was given up: what happened on it, when, and which process did not end."""

    device: str
    """torch's name of the card, such as `cuda:1`."""
    since: str
    """UTC, ISO 8601."""
    why: str
    boot: str
    """Id of the boot of the machine; a mark of another one counts no more."""
    pid: int | None = None
    born: int | None = None
    """When that process began, in ticks since boot: its number alone may be another's by now."""
    candidate: str = ""
    """Digest of the candidate's source."""

    @property
    def words(self) -> str:
        """In one line."""
        who = f" (candidate {self.candidate})" if self.candidate else ""
        return f"{self.device} was given up at {self.since}: {self.why}{who}"


class Confinement(Frozen):
    """Which layers kept candidates in while they ran; of several judges, what held in all of them."""

    unsafe_no_sandbox: bool
    """That flag was given: they would have run without any of this."""
    sound: bool
    """Enough held to run untrusted code."""
    held: tuple[str, ...]
    missing: tuple[str, ...] = ()

    def describe(self) -> str:
        """One line for a person; says what is wrong first."""
        words = f"{', '.join(self.held) or 'nothing'} held"
        words += f"; missing: {', '.join(self.missing)}" if self.missing else ""
        if not self.sound:
            return f"NOT CONFINED, as --unsafe-no-sandbox allowed: {words}"
        return words + (" (--unsafe-no-sandbox was given)" if self.unsafe_no_sandbox else "")

    def weaker(self, other: Confinement | None) -> Confinement:
        """What can be claimed of both."""
        if other is None:
            return self
        return Confinement(
            unsafe_no_sandbox=self.unsafe_no_sandbox or other.unsafe_no_sandbox,
            sound=self.sound and other.sound,
            held=tuple(layer for layer in self.held if layer in other.held),
            missing=tuple(dict.fromkeys((*self.missing, *other.missing))),
        )


class Evaluation(Frozen):
    """The verdict on one candidate. Timings exist if and only if it passed and was measured."""

    outcome: Outcome
    stage: Stage
    message: str = ""
    """Why, in words a model or a person can act on; empty when passed."""
    where: Where | None = None
    mismatch: Mismatch | None = None
    faults: tuple[Fault, ...] = ()
    """What checked builds of its kernels found, if they were asked; the message names the first ones."""
    cases: int = Field(default=0, ge=0)
    verified: tuple[Region, ...] = ()
    """What is known of the input space: boxes that were swept or sampled, and those that are refuted."""
    evidence: Evidence | None = None
    """What was run, how often, and what was not; None where nothing ran."""
    timings: tuple[Timing, ...] = ()
    choices: tuple[WorkloadChoice, ...] = ()
    tried: tuple[ConfigTime, ...] = Field(default=(), max_length=20_000)
    """Every configuration that was timed, not only those that won."""
    builds: tuple[Build, ...] = ()
    """Its kernels, compiled for other chips, if that was asked for."""
    counts: tuple[Counts, ...] = ()
    """The work of its kernels on the tuned workloads, if that was asked for."""
    fingerprint: str = ""
    """Equal for candidates whose launches on the tuned workloads were the same, options included; a hint for the search
    and never a verdict. Empty where it was not asked for."""
    estimates: tuple[Estimate, ...] = ()
    """Of a candidate that passed without the device that it is for: never beside timings."""
    notes: tuple[str, ...] = ()
    """Facts beside the verdict, such as "not bitwise reproducible"."""
    seconds: StageSeconds = StageSeconds()
    log: str = ""
    """Tail of what the candidate printed: untrusted text."""
    reproduce: str = ""
    """A command line that shows the same verdict."""
    given_up: tuple[DeviceMark, ...] = ()
    """Cards that had to be given up while it was judged."""
    confinement: Confinement | None = None
    """What kept the candidate in; None where it never ran."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        passed = self.outcome is Outcome.PASSED
        if not passed and (self.timings or self.choices or self.tried):
            raise ValueError("timings exist only for a candidate that passed")
        if self.estimates and (not passed or self.timings):
            raise ValueError("estimates exist only for a candidate that passed and was not measured")
        if self.mismatch is not None and self.outcome is not Outcome.WRONG_VALUES:
            raise ValueError("a mismatch exists only for wrong values")
        if passed and (self.where is not None or self.mismatch is not None):
            raise ValueError("a candidate that passed failed nowhere")
        if not passed and not self.message:
            raise ValueError("a failure says why")
        return self

    @property
    def score(self) -> float | None:
        """Weighted geometric mean over workloads of best baseline / candidate; None unless measured."""
        if not self.timings or not all(t.speedup for t in self.timings):  # no baseline could run
            return None
        total = sum(t.workload.weight for t in self.timings)
        logs = sum(t.workload.weight * math.log(min(t.speedup.values())) for t in self.timings)
        return math.exp(logs / total)

    @property
    def estimated(self) -> float | None:
        """Weighted geometric mean over workloads of the estimated share of the roofline; None unless estimated."""
        if not self.estimates:
            return None
        logs = sum(one.weight * math.log(one.roofline_share) for one in self.estimates)
        return math.exp(logs / sum(one.weight for one in self.estimates))

    @property
    def standing(self) -> float | None:
        """What ranks it in its run, more being better: measured, or else estimated."""
        return self.score if self.score is not None else self.estimated

    @property
    def faster(self) -> bool:
        """Measured faster than the best baseline: the score's interval lies above 1 (see `score_ci95`)."""
        interval = self.score_ci95
        return interval is not None and interval[0] > 1.0

    @property
    def score_ci95(self) -> tuple[float, float] | None:
        """Interval of the score: in the log, the workloads' distances to either end combined as independent errors."""
        if not self.timings or self.score is None:
            return None
        total = sum(t.workload.weight for t in self.timings)
        below = above = 0.0
        for t in self.timings:
            name = min(t.speedup, key=lambda k: t.speedup[k])
            low, high = t.speedup_ci95[name]
            share, value = t.workload.weight / total, t.speedup[name]
            below += (share * math.log(value / low)) ** 2
            above += (share * math.log(high / value)) ** 2
        return self.score * math.exp(-math.sqrt(below)), self.score * math.exp(math.sqrt(above))


# ---------------------------------------------------------------- jobs


CHECK_SECONDS = {Level.QUICK: 30.0, Level.FULL: 120.0, Level.EXHAUSTIVE: 900.0}
"""Wall seconds of a check for which none are given."""


class Job(Frozen):
    """Everything an executor carries to a judge; plain data."""

    operator: OperatorRef
    target: str
    source: str
    """The candidate's module text."""
    level: Level = Level.QUICK
    seed: int
    """Of inputs and repeats; candidates and prompts never see it."""
    bench: bool = True
    sweeps: tuple[Sweep, ...] = ()
    """Dims that are walked size by size, after the cases of the level."""
    repeats: int | None = Field(default=None, ge=0)
    """How often calls, and replays, are repeated; None: as the level does."""
    at_once: int = Field(default=32, ge=1, le=64)
    """Most calls that the candidate has to bear at once, where it is tried."""
    max_workspace: int | None = Field(default=None, ge=0)
    """Bytes that a call may allocate beside its outputs, on the tuned workloads."""
    check_seconds: float | None = Field(default=None, gt=0)
    """Wall seconds that the check may take; None: what the level allows. What was left out is said."""
    without_device: bool = False
    """The target's device is not here: the check runs on the CPU, kernels are compiled for the target and estimated."""
    grid: GridLimits = GridLimits()
    """What a launch may have, whatever the processor allows."""
    front: Chip | None = None
    """The chip whose own front end lowers its kernels, which are proven as that made them; None: upstream's does."""
    facts: bool = False
    """Whether the verdict tells the work of its kernels, and what the target's compiler made of them if it is here."""
    counted: int | None = Field(default=None, ge=1)
    """Bytes of a memory transaction, if the work of its kernels is to be counted, once it has passed."""
    also: tuple[Chip, ...] = ()
    """What its kernels are compiled for beside, once it has passed."""
    every_config: bool = False
    """Whether that is every configuration of autotuned kernels."""
    revealing: tuple[Where, ...] = ()
    """Where earlier candidates of the run failed, the latest first: tried first."""
    located: bool = True
    """Whether a failure is followed to the smallest input at which it occurs, and to the edges of its region."""
    checked: bool = True
    """Whether checked builds of the kernels run on a few cases, and on one that failed."""
    baselines: tuple[str, ...] = ("eager", "compile")
    bench_seconds: float = Field(default=8.0, gt=0)
    """Time limit of the measurement over all workloads."""
    seconds: float = Field(default=300.0, gt=0)
    """Wall limit of everything the candidate does; a hang is found much earlier, by the limit of each question."""


class Seed(Frozen):
    """A starting kernel found without a model."""

    source: str
    origin: str
