"""Candidates for a device that is not here: proven on the processor, compiled for the device's chip, held against the
limits of its target file, and estimated.

Invariant: nothing is timed, so that a verdict has estimates and never timings. A kernel that is right and does not fit
has the outcome that it would have on the device, in words that say what it needs and what is there. `rooms` asks, in a
room on the processor.
"""

from __future__ import annotations

from kernelsmith.compiled import Fit
from kernelsmith.evaluate import evaluate as judging
from kernelsmith.evaluate.room.fronts import WARMS, own_front
from kernelsmith.evaluate.room.room import Room
from kernelsmith.execute import Tell
from kernelsmith.model import Evaluation, Job
from kernelsmith.offline import cost, fit
from kernelsmith.outcome import Outcome, Stage

MOST_WARNINGS = 6
_UPSTREAM = (
    "lowered by upstream Triton's front end: the toolchain was made for another Python than kernelsmith runs "
    "in, so its own cannot be used"
)


def evaluate(job: Job, room: Room, tell: Tell) -> Evaluation:
    """The verdict on one candidate; raises as `evaluate.evaluate` does, and UsageError for a target that nothing here
    compiles for."""
    target = room.described(job.target)
    chip = fit.chip_of(target)
    if chip is None:
        raise fit.no_compiler(target)
    own = own_front(target) is not None
    update = {"target": room.target.name, "bench": False, "also": tuple(dict.fromkeys((*job.also, chip)))}
    update["grid"] = target.limits.grid
    update["counted"] = cost.transaction_bytes(target)
    update["front"] = chip if own else None
    found = judging.evaluate(job.model_copy(update=update), room, tell)
    if found.outcome is not Outcome.PASSED:
        return found
    built = tuple(build for build in found.builds if build.chip == chip and build.taken)
    rows = fit.rows((target,), built, passed=True)
    wrong = [row for row in rows if row.wrong]
    if wrong:
        return found.model_copy(
            update={
                "outcome": wrong[0].outcome,
                "stage": Stage.COMPILE,
                "message": "; ".join(dict.fromkeys(_why(row) for row in wrong)),
                "verified": (),
                "counts": (),
            }
        )
    unknown = dict.fromkeys(why for counts in found.counts for why in counts.missing)
    warnings = dict.fromkeys(f"{row.kernel}: {text}" for row in rows for text in row.warnings)
    notes = (
        *found.notes,
        f"not measured on {fit.article(target)}: proven on the processor",
        *([] if own or target.offline not in WARMS else [_UPSTREAM]),
        *(f"no estimate: {why}" for why in unknown),
        *list(warnings)[:MOST_WARNINGS],
    )
    return found.model_copy(update={"notes": notes, "estimates": cost.estimates(target, found.counts, built)})


def _why(row: Fit) -> str:
    at = f" (line {row.line})" if row.line is not None else ""
    return f"right on the processor, but not a kernel for {row.target}: {row.kernel}{at}: {row.message}"
