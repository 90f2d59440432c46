"""What the controller and a judge say to each other: frozen records, one frame each, matched by `id`.

Both ends are trusted; frames go over a `Channel`. The judge holds torch and the operator file, the controller neither.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from kernelsmith.base import Frozen
from kernelsmith.errors import InfrastructureError, KernelsmithError, OperatorError, SandboxError, UsageError
from kernelsmith.execute import DeviceLostError
from kernelsmith.model import DeviceMark, Evaluation, Job, OperatorInfo, OperatorRef, Seed


class Describe(Frozen):
    kind: Literal["describe"] = "describe"
    id: int
    operator: OperatorRef


class FindSeeds(Frozen):
    kind: Literal["find_seeds"] = "find_seeds"
    id: int
    operator: OperatorRef


class Evaluate(Frozen):
    kind: Literal["evaluate"] = "evaluate"
    id: int
    job: Job


JudgeRequest = Annotated[Describe | FindSeeds | Evaluate, Field(discriminator="kind")]


class Described(Frozen):
    kind: Literal["described"] = "described"
    id: int
    info: OperatorInfo


class SeedsFound(Frozen):
    kind: Literal["seeds_found"] = "seeds_found"
    id: int
    seeds: tuple[Seed, ...]


class Evaluated(Frozen):
    kind: Literal["evaluated"] = "evaluated"
    id: int
    evaluation: Evaluation


class Waiting(Frozen):
    """Not an answer yet: why an evaluation waits, or that it waits no more."""

    kind: Literal["waiting"] = "waiting"
    id: int
    why: str
    """Empty when it is over."""


class Broken(Frozen):
    """The judge could not answer; says which error the controller should raise."""

    kind: Literal["broken"] = "broken"
    id: int
    error: Literal["operator", "usage", "sandbox", "device", "infrastructure"]
    message: str
    hint: str = ""
    given_up: tuple[DeviceMark, ...] = ()

    def raised(self) -> KernelsmithError:
        if self.error == "device":
            return DeviceLostError(self.message, self.hint, self.given_up)
        kinds: dict[str, type[KernelsmithError]] = {
            "operator": OperatorError,
            "usage": UsageError,
            "sandbox": SandboxError,
            "infrastructure": InfrastructureError,
        }
        return kinds[self.error](self.message, self.hint)


JudgeReply = Annotated[Described | SeedsFound | Evaluated | Waiting | Broken, Field(discriminator="kind")]


class Assigned(Frozen):
    """Tells a judge in quarantine, once it is confined, what it is to be."""

    target: str
    targets: str
    """Folder of the target's file."""
    width: int


class Settled(Frozen):
    """Its answer: how the confinement went."""

    mounted: bool = False
    """It has a file system of its own, so that the folder it was given is only a place to mount on."""
    error: str = ""
    """Why it cannot be confined; empty where it is."""
    hint: str = ""


REQUESTS: TypeAdapter[JudgeRequest] = TypeAdapter(JudgeRequest)
REPLIES: TypeAdapter[JudgeReply] = TypeAdapter(JudgeReply)


def broken(request: int, error: KernelsmithError) -> Broken:
    """The reply that makes the controller raise the like of `error`."""
    if isinstance(error, OperatorError):
        return Broken(id=request, error="operator", message=error.message, hint=error.hint)
    if isinstance(error, UsageError):
        return Broken(id=request, error="usage", message=error.message, hint=error.hint)
    if isinstance(error, SandboxError):
        return Broken(id=request, error="sandbox", message=error.message, hint=error.hint)
    if isinstance(error, DeviceLostError):
        lost = error.given_up
        return Broken(id=request, error="device", message=error.message, hint=error.hint, given_up=lost)
    return Broken(id=request, error="infrastructure", message=error.message, hint=error.hint)
