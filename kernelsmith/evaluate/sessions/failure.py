"""How a candidate fails: an exception on its way up from wherever it fell to the verdict that it becomes.

Invariant: one is raised only for what is the candidate's own fault. Raised by sessions and whoever judges answers,
caught where a job ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kernelsmith.errors import KernelsmithError
from kernelsmith.evaluate.sessions.stuck import StuckError
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evidence import Mismatch
from kernelsmith.faults import Fault
from kernelsmith.model import Evaluation
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.sandbox.wire.messages import Called, Failed
from kernelsmith.space import Where

LOG_CHARS = 4000


@dataclass(frozen=True)
class Suspect:
    """What it takes to look closer at a wrong answer: the contents, and a recorded call or its plan in the launcher."""

    case: Case
    content: int
    called: Called | None = None
    plan_id: int | None = None


FATAL = frozenset({Outcome.TIMEOUT, Outcome.MEMORY, Outcome.CRASHED, Outcome.SANDBOX_VIOLATION})
"""Outcomes after which the candidate's process is gone, so that no other configuration can be tried."""


class CandidateFailure(Exception):  # noqa: N818 - a verdict on its way up, not an error of ours
    """The candidate is refused: becomes an Evaluation where the job ends."""

    def __init__(
        self,
        outcome: Outcome,
        message: str,
        *,
        stage: Stage,
        where: Where | None = None,
        mismatch: Mismatch | None = None,
        log: str = "",
    ) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message
        self.stage = stage
        self.where = where
        self.mismatch = mismatch
        self.log = log
        self.faults: tuple[Fault, ...] = ()
        """What checked builds of its kernels found."""
        self.suspect: Suspect | None = None

    def at(self, where: Where) -> CandidateFailure:
        """The same failure, with the case at which it fell."""
        self.where = self.where or where
        return self

    def evaluation(self) -> Evaluation:
        return Evaluation(
            outcome=self.outcome,
            stage=self.stage,
            message=self.message,
            where=self.where,
            mismatch=self.mismatch if self.outcome is Outcome.WRONG_VALUES else None,
            faults=self.faults,
            log=self.log[-LOG_CHARS:],
        )


class KilledFailure(CandidateFailure):
    """Its process was ended by SIGKILL, and not by us: by a person or the kernel, or in some modes by itself."""


@contextmanager
def standing() -> Iterator[None]:
    """A verdict that has been reached stands, whatever happens inside, where somebody looks for more about it; only a
    process that does not die is never passed over, for what it holds is not free."""
    try:
        yield
    except StuckError:
        raise
    except (CandidateFailure, KernelsmithError):
        return


def failure_of(reply: Failed, stage: Stage) -> CandidateFailure:
    """What a confined process said against the candidate."""
    at = f" (line {reply.line})" if reply.line is not None and f"line {reply.line}" not in reply.message else ""
    stage = Stage.COMPILE if reply.outcome is Outcome.COMPILE_ERROR else stage
    return CandidateFailure(reply.outcome, reply.message + at, stage=stage, log=reply.trace)
