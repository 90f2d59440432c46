"""Candidates for a card run on the processor first, with checked builds of their kernels.

Accelerators show neither a stray access nor a race nor a read of what nobody wrote; the CPU backend's checked builds
do, for kernels of any target, since they read the same TTIR. Invariant: only a fault of a kernel refuses a candidate
here. That it cannot run on a processor at all, or answers otherwise there, is a note. `rooms` asks; quick checks go to
the card at once.
"""

from __future__ import annotations

from kernelsmith.evaluate import evaluate as judging
from kernelsmith.evaluate.room.room import Room
from kernelsmith.execute import Tell
from kernelsmith.model import Evaluation, Job
from kernelsmith.outcome import Level, Outcome

SECONDS = 60.0
"""Of the check on the processor: the plans that are examined are among its first."""


def evaluate(job: Job, room: Room, tell: Tell) -> Evaluation:
    """The verdict on one candidate in a room; raises as `evaluate.evaluate` does."""
    if room.card.node is None or not job.checked or job.level is Level.QUICK:
        return judging.evaluate(job, room, tell)
    seconds = min(job.check_seconds or SECONDS, SECONDS)
    update = {"target": room.host.target.name, "level": Level.FULL, "check_seconds": seconds}
    update |= {"bench": False, "repeats": 0}
    # sizes in a row are walked on the card: one call of each, without any checked build, shows no more here
    found = judging.evaluate(job.model_copy(update=update), room.host, tell, walks=False)
    if found.faults:
        message = f"on the processor, before it met {room.card.name}: {found.message}"
        return found.model_copy(update={"message": message})
    verdict = judging.evaluate(job, room, tell)
    return verdict.model_copy(update={"notes": (*verdict.notes, _note(found))})


def _note(found: Evaluation) -> str:
    if found.outcome is not Outcome.PASSED:
        first = found.message.splitlines()[0]
        return f"not proven by checked builds, for on the processor its outcome is {found.outcome}: {first}"
    examined = found.evidence.examined if found.evidence is not None else 0
    return f"{examined} of its plans ran on the processor first, with checked builds that found nothing"
