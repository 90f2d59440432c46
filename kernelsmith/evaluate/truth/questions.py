"""What the judge asks of its baseline process, and the answers: frozen records, one frame each.

The baseline process runs the user's own code (reference, torch.compile of it, the kernel in use today) and never a
model's. It makes the inputs itself from the case and the seed, so no tensor crosses.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from kernelsmith.base import Frozen
from kernelsmith.model import OperatorRef, Seed


class Open(Frozen):
    """Load the operator; `threads` is what the launcher gets too."""

    kind: Literal["open"] = "open"
    operator: OperatorRef
    model_seed: int
    threads: int


class Opened(Frozen):
    kind: Literal["opened"] = "opened"


class Build(Frozen):
    """Make one baseline ready for one workload: inputs, compilation and warm-up, all outside of any clock."""

    kind: Literal["build"] = "build"
    baseline: str
    workload: int
    seeds: tuple[int, ...]
    """One set of inputs per seed."""


class Built(Frozen):
    kind: Literal["built"] = "built"
    available: bool
    reason: str = ""
    """Why it is not available, for the report."""
    round_trip: str = ""
    """Why it runs on the CPU, with its tensors copied there and back: what the device lacks."""


class Clock(Frozen):
    """Time one call on input set `pool` after emptying the caches."""

    kind: Literal["clock"] = "clock"
    baseline: str
    workload: int
    pool: int
    flush_bytes: int


class Clocked(Frozen):
    kind: Literal["clocked"] = "clocked"
    nanoseconds: int = Field(gt=0)


class Lift(Frozen):
    """Find starting kernels in what TorchInductor makes of the reference."""

    kind: Literal["lift"] = "lift"


class Lifted(Frozen):
    kind: Literal["lifted"] = "lifted"
    seeds: tuple[Seed, ...]


class Trouble(Frozen):
    """The user's own code raised."""

    kind: Literal["trouble"] = "trouble"
    message: str


Question = Annotated[Open | Build | Clock | Lift, Field(discriminator="kind")]
Answer = Annotated[Opened | Built | Clocked | Lifted | Trouble, Field(discriminator="kind")]
QUESTIONS: TypeAdapter[Question] = TypeAdapter(Question)
ANSWERS: TypeAdapter[Answer] = TypeAdapter(Answer)
