"""Which messages each role takes and which it gives back."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kernelsmith.sandbox.wire.builds import Built, Identified, Identify, Source
from kernelsmith.sandbox.wire.many import CalledMany, CallMany, ReplayedMany, ReplayMany
from kernelsmith.sandbox.wire.messages import (
    Arrange,
    Broken,
    Call,
    Called,
    Done,
    Examine,
    Examined,
    Failed,
    Forget,
    Keep,
    Kept,
    Load,
    Loaded,
    Lower,
    Lowered,
    Prepare,
    Prepared,
    Repeat,
    Repeated,
    Replay,
    Replayed,
    Run,
    Sample,
    Sampled,
    State,
    StateWritten,
)

CandidateRequest = Annotated[Load | Call | State | Lower | Repeat | CallMany, Field(discriminator="kind")]
CandidateReply = Annotated[
    Loaded | Called | StateWritten | Lowered | Repeated | CalledMany | Failed | Source, Field(discriminator="kind")
]

LauncherRequest = Annotated[
    Prepare | Forget | Replay | Sample | Keep | Arrange | Run | Examine | ReplayMany,
    Field(discriminator="kind"),
]
LauncherReply = Annotated[
    Prepared | Replayed | Sampled | Kept | Done | Examined | ReplayedMany | Failed | Broken,
    Field(discriminator="kind"),
]

BuilderRequest = Annotated[Source | Identify, Field(discriminator="kind")]
BuilderReply = Annotated[Built | Identified | Failed | Broken, Field(discriminator="kind")]
