"""What a compiler's process is asked and what it answers, one frame each.

Invariant: the text that it compiles is hostile, so its answer is a claim: bounded, validated, used as an estimate.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter

from kernelsmith.base import Frozen
from kernelsmith.compiled import Chip, Found, Resources, Run
from kernelsmith.estimate import Work
from kernelsmith.plan import Kernel
from kernelsmith.sandbox.wire.messages import Broken, Failed
from kernelsmith.sandbox.wire.reading import too_large
from kernelsmith.text import clean
from kernelsmith.triton_cpu.read.parse import MAX_OPS


class Compile(Frozen):
    """Compile one kernel's TTIR, as the chip's own front end makes it, and read what came out."""

    kind: Literal["compile"] = "compile"
    kernel: Kernel
    chip: Chip


class Launched(Frozen):
    """One launch as it is followed: made-up addresses (see `count.BUFFER_BITS`) and integers, None for the rest."""

    grid: tuple[int, int, int]
    arguments: tuple[int | None, ...]
    entries: tuple[Annotated[int, Field(ge=0, lt=2**62)], ...] | None = Field(default=None, max_length=MAX_OPS)
    """How often each block of its control flow was entered when it ran (`tallied.blocks`); None: it has not run."""


class Count(Frozen):
    """Count the work of one kernel's launches on one workload."""

    kind: Literal["count"] = "count"
    kernel: Kernel
    launches: tuple[Launched, ...]
    buffers: dict[int, int]
    """Bytes of each buffer, by number."""
    transaction_bytes: int


class Inspect(Frozen):
    """Find the constructs of one kernel that some devices lack or are slow at, and its loads of neighbours."""

    kind: Literal["inspect"] = "inspect"
    kernel: Kernel


Request = Annotated[Compile | Count | Inspect, Field(discriminator="kind")]
REQUESTS: TypeAdapter[Request] = TypeAdapter(Request)


class Compiled(Frozen):
    kind: Literal["compiled"] = "compiled"
    resources: Resources
    seconds: float = Field(ge=0, allow_inf_nan=False)


class Counted(Frozen):
    kind: Literal["counted"] = "counted"
    work: Work
    assumed: tuple[Annotated[str, Field(max_length=200), AfterValidator(clean)], ...] = Field(default=(), max_length=16)


class Inspected(Frozen):
    kind: Literal["inspected"] = "inspected"
    found: tuple[Found, ...] = Field(max_length=64)
    runs: tuple[Run, ...] = Field(max_length=64)


CompilerReply = Annotated[Compiled | Counted | Inspected | Failed | Broken, Field(discriminator="kind")]
_REPLY: TypeAdapter[CompilerReply] = TypeAdapter(CompilerReply)


def compiler_reply(payload: bytes) -> CompilerReply:
    """What a compiler claims; raises ValueError."""
    if why := too_large(payload):
        raise ValueError(why)
    return _REPLY.validate_json(payload)
