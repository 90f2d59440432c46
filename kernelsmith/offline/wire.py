"""What a compiler's process is asked and what it answers, one frame each.

Invariant: the text that it compiles is hostile, so its answer is a claim: bounded, validated, used as an estimate.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from kernelsmith.base import Frozen
from kernelsmith.compiled import Chip, Resources
from kernelsmith.plan import Kernel
from kernelsmith.sandbox.wire.messages import Broken, Failed
from kernelsmith.sandbox.wire.reading import too_large


class Compile(Frozen):
    """Compile one kernel's TTIR, as the chip's own front end makes it, and read what came out."""

    kind: Literal["compile"] = "compile"
    kernel: Kernel
    chip: Chip


class Compiled(Frozen):
    kind: Literal["compiled"] = "compiled"
    resources: Resources
    seconds: float = Field(ge=0, allow_inf_nan=False)


CompilerReply = Annotated[Compiled | Failed | Broken, Field(discriminator="kind")]
_REPLY: TypeAdapter[CompilerReply] = TypeAdapter(CompilerReply)


def compiler_reply(payload: bytes) -> CompilerReply:
    """What a compiler claims; raises ValueError."""
    if why := too_large(payload):
        raise ValueError(why)
    return _REPLY.validate_json(payload)
