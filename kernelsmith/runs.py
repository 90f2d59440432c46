"""What a run is: what was asked, what became of it, and its readable folder.

    runs/<id>/run.json  winner.py  prompts/<hash>.md
              trials/001/{prompt.txt, reply.md, usage.json, kernel.py, evaluation.json}

The folder is for people: kernelsmith writes it and reads nothing back, so the store alone decides. Seeds of inputs are
never written here, because a `command:` agent can read it. Called by store.py.
"""

from __future__ import annotations

import os
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

from pydantic import Field

from kernelsmith.base import Frozen
from kernelsmith.errors import StoreError
from kernelsmith.model import Confinement, Evaluation, OperatorInfo, OperatorRef
from kernelsmith.outcome import Level
from kernelsmith.proposal import Budget, Candidate, Move, Prompt, Spent, StopReason, Trial, Usage
from kernelsmith.space import Sweep

MOST_WIDTH = 64
"""Trials in flight."""


class RunStatus(StrEnum):
    RUNNING = "running"
    """Or killed: then nobody holds its lock."""
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"


class CallStatus(StrEnum):
    INTENT = "intent"
    """About to be made or in flight; counted at its reservation."""
    ANSWERED = "answered"
    NOTHING = "nothing"
    """The proposer had nothing more to try."""
    FAILED = "failed"
    LOST = "lost"
    """In flight when the process died: charged at its reservation, since the provider charges too."""


class RunSpec(Frozen):
    """What was asked; never changes but for what a resumed run may change."""

    operator: OperatorRef
    info: OperatorInfo
    target: str
    models: tuple[str, ...]
    budget: Budget
    width: int = Field(default=2, ge=1, le=MOST_WIDTH)
    seed: int
    """Root of all seeds of inputs; in the store only."""
    start: str = ""
    """Text of the `--start` kernel."""
    hint: str = ""
    """Text of the `--hint` file."""
    sweeps: tuple[Sweep, ...] = ()
    """What the winner's check walks size by size."""
    at_once: int | None = None
    """Most calls that the winner has to bear at once; None: as many as a full check makes by itself."""
    max_workspace: int | None = None
    """Bytes that a call may allocate beside its outputs; None: any."""
    without_device: bool = False
    """The target's device is not here: its kernels are proven on the processor, compiled for it and estimated."""
    versions: dict[str, str] = {}
    """Of the distributions that judge, as they were when the run began."""
    unsafe_no_sandbox: bool = False
    """That flag was given when the run began or was resumed."""
    seal: str = ""
    """Proves to the user who made the run that its operator and models are still the same (seals.py)."""

    @property
    def foreign(self) -> bool:
        """The operator came from elsewhere, so that judges run in quarantine."""
        return self.operator.text is not None


class Run(Frozen):
    id: str = Field(pattern=r"^\w[\w-]*$", max_length=100)
    """Also the name of its folder, so it can be no path."""
    created: str
    """UTC, ISO 8601."""
    version: str
    """Of kernelsmith."""
    spec: RunSpec
    status: RunStatus
    stop: StopReason | None = None
    message: str = ""
    winner: int | None = None
    """Number of the winning trial."""
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Wall seconds over all sessions."""
    confinement: Confinement | None = None
    """What held for all its candidates; None while none has run."""


class Call(Frozen):
    """One call of a model. The row exists before the call is made."""

    number: int
    """Of the trial that it is to become."""
    model: str
    prompt: str
    move: Move = Move.DRAFT
    base: int | None = None
    """Number of the trial that the move works on; blocks of changes in the reply apply to its text."""
    parents: tuple[str, ...] = ()
    repairs: int | None = None
    parts: tuple[str, ...] = ()
    """The prompt files that the prompt was made from."""
    status: CallStatus = CallStatus.INTENT
    reserved: Usage
    usage: Usage = Usage()
    reply: str = ""
    complete: bool = True
    message: str = ""


class Verdict(Frozen):
    """One evaluation of a trial; the latest is the one that counts."""

    level: Level
    seed: int
    evaluation: Evaluation


class TrialRecord(Frozen):
    """A proposal with a number; unjudged while `verdict` is None."""

    number: int
    candidate: Candidate
    repairs: int | None = None
    """The trial that this one mends."""
    repeats: int | None = None
    """The earlier trial with the same text."""
    verdict: Verdict | None = None

    @property
    def evaluation(self) -> Evaluation | None:
        return self.verdict.evaluation if self.verdict else None

    @property
    def rechecked(self) -> bool:
        return self.verdict is not None and self.verdict.level is Level.FULL

    def trial(self) -> Trial:
        return Trial(number=self.number, candidate=self.candidate, evaluation=self.evaluation)


def spent(calls: tuple[Call, ...], trials: tuple[TrialRecord, ...], seconds: float) -> Spent:
    """What a run has used: settled calls at their cost, calls in flight at their reservation.

    A trial is a call that was (or may have been) answered, or a kernel that needed no call; lost calls count.
    """
    counted = {c.number for c in calls if c.status in (CallStatus.INTENT, CallStatus.ANSWERED, CallStatus.LOST)}
    flying = [c.reserved for c in calls if c.status is CallStatus.INTENT]
    return Spent(
        trials=len(counted | {t.number for t in trials}),
        usage=sum((c.usage for c in calls), Usage()),
        reserved_usd=sum((r.usd for r in flying), Decimal(0)),
        reserved_tokens=sum(r.tokens for r in flying),
        seconds=seconds,
    )


class Folder:
    """The readable files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def trial(self, number: int) -> Path:
        return self.path / "trials" / f"{number:03d}"

    def kernel(self, number: int) -> Path:
        return self.trial(number) / "kernel.py"

    @property
    def operator(self) -> Path:
        """The operator's text, where its file came from elsewhere."""
        return self.path / "operator.py"

    @property
    def winner(self) -> Path:
        return self.path / "winner.py"

    def describe(self, run: Run) -> None:
        shown = run.model_dump_json(
            indent=2, exclude={"spec": {"seed": True, "operator": {"text"}, "info": {"source"}}}
        )
        self._write(self.path / "run.json", shown + "\n")

    def prompt(self, number: int, prompt: Prompt) -> None:
        text = f"<!-- system -->\n{prompt.system}\n\n<!-- user -->\n{prompt.user}\n"
        target = self.path / "prompts" / f"{prompt.id}.md"
        if not target.exists():
            self._write(target, text)
        self._write(self.trial(number) / "prompt.txt", f"prompts/{prompt.id}.md\n")

    def reply(self, number: int, text: str, usage: str) -> None:
        """`usage`: the Usage record as exact JSON, where `replay:` looks for it."""
        self._write(self.trial(number) / "reply.md", text)
        self._write(self.trial(number) / "usage.json", usage + "\n")

    def candidate(self, record: TrialRecord) -> None:
        if record.candidate.source:
            self._write(self.kernel(record.number), record.candidate.source)

    def evaluation(self, number: int, evaluation: Evaluation) -> None:
        self._write(self.trial(number) / "evaluation.json", evaluation.model_dump_json(indent=2) + "\n")

    def keep_operator(self, text: str) -> Path:
        self._write(self.operator, text)
        return self.operator

    def keep_winner(self, source: str) -> None:
        self._write(self.winner, source)

    def own(self, path: Path) -> Path:
        """`path`, if no link leads out of this folder on the way to it: the folder may be somebody else's work."""
        home = self.path.parent.resolve() / self.path.name
        if path.parent.resolve() != home / path.parent.relative_to(self.path):
            raise StoreError(f"{path.parent}: a link leads out of the run's folder", "remove the link")
        return path

    def _write(self, path: Path, text: str) -> None:
        """Whole or not at all: a reader never sees half a file."""
        self.own(path).parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.unlink(missing_ok=True)
        try:
            with part.open("x", encoding="utf-8", errors="replace") as file:  # never through a link
                file.write(text)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
