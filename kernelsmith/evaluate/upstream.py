"""A candidate's kernels as kernelsmith's own Triton makes them, for chips that the front end which recorded it does not
lower for: a kernel for Ascend, looked at for GPUs.

Invariant: the verdict does not depend on it; what upstream's front end refuses is a build that failed. Asked by
`absent` once the candidate has passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from kernelsmith.compiled import MOST_CHARS, Build, Chip
from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.check.ports import Recording, ported
from kernelsmith.evaluate.extent import load_request
from kernelsmith.evaluate.room.room import Room
from kernelsmith.evaluate.sessions import allowance
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.execute import Tell
from kernelsmith.model import Job
from kernelsmith.outcome import Stage


def builds(job: Job, room: Room, chips: Sequence[Chip], tell: Tell) -> tuple[Build, ...]:
    """What becomes of its kernels for the chips. Raises InfrastructureError and SandboxError."""
    if not chips:
        return ()
    operator = room.operator(job.operator)
    sizes = room.sizes(operator)
    limits, own_time = allowance.limits(sizes, room.threads, on_card=False), OwnTime(job.seconds)
    with (
        room.admission.admitted(f"{operator.info.digest} upstream", allowance.guess(sizes), tell) as place,
        closing(CandidateSession(room.zygote, limits, room.arenas, room.binaries, own_time)) as candidate,
        closing(LauncherSession(room.zygote, limits, room.arenas, room.binaries, own_time)) as launcher,
    ):
        place.users[:] = (candidate.child, launcher.child)
        checker = Checker(room.truths, operator, candidate, launcher, seed=job.seed, time=own_time)
        try:
            tunables = candidate.load(load_request(job, operator), None, checker.remaining(Stage.LOAD)).tunables
            found = Recording(checker, candidate, chips, tunables).all(operator, {}, every=job.every_config)
            return ported(found, checker, room.builds, job.source)
        except CandidateFailure as failure:
            why = f"upstream Triton refuses it: {failure.message}"[:MOST_CHARS]
            name, outcome = operator.info.name, failure.outcome
            return tuple(Build(kernel=name, chip=chip, outcome=outcome, message=why) for chip in chips)
