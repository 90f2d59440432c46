"""Where a job runs. An executor carries plain data to a judge and brings back a verdict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kernelsmith.errors import InfrastructureError
from kernelsmith.model import DeviceMark, Evaluation, Job, OperatorInfo, OperatorRef, Seed


class DeviceLostError(InfrastructureError):
    """No card of the target can be used: those that are here were given up. Trying again at once does not help."""

    def __init__(self, message: str, hint: str = "", given_up: tuple[DeviceMark, ...] = ()) -> None:
        super().__init__(message, hint)
        self.given_up = given_up


Tell = Callable[[str], None]
"""Hears why an evaluation waits for a place on its machine, and an empty text when it waits no more."""


def quiet(why: str) -> None:
    """A `Tell` for those who do not care."""


class Executor(Protocol):
    """Runs jobs on one target; safe to call from several threads. Infrastructure failures raise InfrastructureError."""

    def describe(self, operator: OperatorRef) -> OperatorInfo:
        """Load the operator file and say what it is; raises OperatorError."""

    def seeds(self, operator: OperatorRef) -> tuple[Seed, ...]:
        """Starting kernels found without a model (lifted from TorchInductor); empty where none work."""

    def evaluate(self, job: Job, tell: Tell = quiet) -> Evaluation:
        """Screen, record, compile, check and (if asked and passed) time one candidate. `tell` is called from any
        thread."""

    def close(self) -> None:
        """Stop the judge and everything it started."""
