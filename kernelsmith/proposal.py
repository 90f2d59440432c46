"""The nouns of proposing: what a proposer is told, what it answers, and what that may cost and did.

Frozen types like those of model.py, which stands below: a judge needs none of these.
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Annotated

from pydantic import Field, PlainSerializer

from kernelsmith.base import Frozen, Scalar, digest
from kernelsmith.model import Evaluation, OperatorInfo, Seed

Usd = Annotated[Decimal, PlainSerializer(float, return_type=float, when_used="json")]
"""US dollars: exact inside, a plain number in JSON."""


MOST_USD = Decimal(10**12)
"""A bound on what is read: a decimal such as 1e999999999 is written out in as many digits."""


class Usage(Frozen):
    """What one call of a model cost."""

    input_tokens: int = Field(default=0, ge=0)
    cached_input_tokens: int = Field(default=0, ge=0)
    """Part of input_tokens that was read from a cache."""
    cache_write_tokens: int = Field(default=0, ge=0)
    """Part of input_tokens that was written to a cache."""
    output_tokens: int = Field(default=0, ge=0)
    usd: Usd = Field(default=Decimal(0), ge=0, le=MOST_USD)
    seconds: float = Field(default=0.0, ge=0)

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            usd=self.usd + other.usd,
            seconds=self.seconds + other.seconds,
        )


class Reply(Frozen):
    """What a proposer answered, before anything is judged."""

    text: str
    usage: Usage = Usage()
    model: str
    """The spec that was asked, for example `openai:gpt-5`."""
    complete: bool = True
    """False when the reply was cut at the length limit."""


class Move(StrEnum):
    """What the next reply is asked to do with what is known; peers.md 4 tells which of them paid for others."""

    DRAFT = "draft"
    """A first version, or one of another structure."""
    REPAIR = "repair"
    """Mend one failed kernel and keep its idea."""
    IMPROVE = "improve"
    """Remove one named bottleneck of one kernel with one change."""
    RECOMBINE = "recombine"
    """One kernel out of the strengths of two that differ in structure."""
    PORT = "port"
    """Bring over a kernel that was written for another target or operator."""
    SIMPLIFY = "simplify"
    """The same speed in less code."""


class Candidate(Frozen):
    """A kernel to be judged."""

    source: str
    origin: str
    """Model spec, `offline:softmax rows`, `start`, ..."""
    parents: tuple[str, ...] = ()
    """Ids of the candidates it was made from."""

    @property
    def id(self) -> str:
        return digest(self.source)


class Budget(Frozen):
    """Limits of one run; whichever is reached first stops it."""

    max_trials: int | None = Field(default=None, gt=0)
    max_tokens: int | None = Field(default=None, gt=0)
    max_usd: Usd | None = Field(default=None, gt=0, le=MOST_USD)
    max_seconds: float | None = Field(default=None, gt=0)
    goal: float | None = Field(default=None, gt=0)
    """Stop once the best score's lower bound reaches this speed-up."""


class StopReason(StrEnum):
    TRIALS = "trials"
    TOKENS = "tokens"
    USD = "usd"
    TIME = "time"
    GOAL = "goal"
    EXHAUSTED = "exhausted"
    """No proposer has anything more to try."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"


class Spent(Frozen):
    """What a run has used so far; calls in flight are counted at their reservation."""

    trials: int = 0
    usage: Usage = Usage()
    reserved_usd: Usd = Decimal(0)
    reserved_tokens: int = 0
    seconds: float = 0.0


# ---------------------------------------------------------------- what a proposer is told


class Trial(Frozen):
    """One proposal and, once judged, its verdict."""

    number: int = Field(ge=1)
    candidate: Candidate
    evaluation: Evaluation | None = None


class Bottleneck(StrEnum):
    """Each has a file `prompts/bottlenecks/NAME.md` that says how it is usually removed."""

    HOST = "host"
    """The Python of the host function."""
    LAUNCHES = "launches"
    TRAFFIC = "traffic"
    """More bytes are moved than the operator needs."""
    SCATTERED = "scattered"
    """Bytes are fetched that nobody asked for."""
    PARALLELISM = "parallelism"
    """Too few programs to fill the device, or a last wave that is nearly empty."""
    MEMORY = "memory"
    """The roofline is nearly reached."""
    ARITHMETIC = "arithmetic"
    LATENCY = "latency"
    """None of the others: what is moved and computed should take less than it does."""


class Finding(Frozen):
    """One workload's bottleneck."""

    workload: str
    bottleneck: Bottleneck
    evidence: str
    """The numbers, as a sentence."""


class TargetFacts(Frozen):
    """What a proposer should know of the device; rendered from a target file."""

    name: str
    device: str
    """torch device type, for example `cpu`, `cuda`, `npu`."""
    summary: str
    limits: dict[str, Scalar] = {}
    notes: str = ""
    """Markdown from `prompts/knowledge/` and the target file."""
    useless_knobs: tuple[str, ...] = ()
    family: str = ""
    """Of Triton's back ends: rules that were learned on one device hold for its family."""
    units: int | None = None
    """Programs that it runs at once, at one per multiprocessor or core; None: not known here."""


class Brief(Frozen):
    """Everything the next proposal is based on."""

    operator: OperatorInfo
    target: TargetFacts
    best: tuple[Trial, ...] = ()
    """Best passed trials, fastest last (a model reads the end best); where the move works on one of them, that one is
    the last."""
    partner: Trial | None = None
    """The other kernel of a recombination, or the one that changes were meant for which do not apply."""
    port: Seed | None = None
    """A kernel for another target or operator, to be brought over."""
    findings: tuple[Finding, ...] = ()
    """What holds the base back, one per workload."""
    aim: Finding | None = None
    """The one of them to remove."""
    lessons: tuple[str, ...] = ()
    """What earlier runs taught about this family of devices and kind of operator; fixed when the run begins."""
    attempts: tuple[str, ...] = ()
    """What the latest calls of this run tried and what came of it."""
    structures: tuple[str, ...] = ()
    """What was tried so far, in words, for a draft that should be something else."""
    failures: tuple[Trial, ...] = ()
    """Most recent failed trials, newest last."""
    move: Move = Move.DRAFT
    base: Trial | None = None
    """The one trial that the move works on: the one to mend, improve or simplify. Search/replace blocks of the reply
    apply to its text; None: only a whole module will do."""
    seeds: tuple[Seed, ...] = ()
    tried: tuple[str, ...] = ()
    """Ids of every candidate of the run so far."""
    examples: tuple[Seed, ...] = ()
    """Example kernels of the operator's category."""
    hint: str = ""
    """Text of the user's `--hint` file."""
    budget: Budget = Budget()
    spent: Spent = Spent()
    call: Usage | None = None
    """What a call of this run that answered took on average; None before the first that counts tokens."""
    trial: int = Field(default=1, ge=1)
    """Number of the trial that is asked for."""


class Prompt(Frozen):
    """A rendered prompt: `system` is stable within a run (cacheable), `user` changes with every trial."""

    system: str
    user: str
    files: tuple[str, ...] = ()
    """The prompt files it was made from."""

    @property
    def id(self) -> str:
        return digest(self.system, self.user)
