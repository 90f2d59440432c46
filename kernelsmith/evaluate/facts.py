"""What is told of a candidate that passed beside its verdict: builds for chips that are not here, its kernels' work.

Invariant: a chip with a front end of its own here gets what that makes of the kernels, never what another one made; so
the candidate is recorded once more, in the zygote of that front end, for every chip that is not lowered by its own.
Asked by `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from kernelsmith.compiled import MOST_CHARS, Build, Chip
from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.check.ports import Recorded, Recording, fingerprint, ported
from kernelsmith.evaluate.check.work import counted
from kernelsmith.evaluate.room.room import Room
from kernelsmith.evaluate.sessions.failure import CandidateFailure, KilledFailure
from kernelsmith.evaluate.sessions.session import LauncherSession
from kernelsmith.evaluate.truth.explore import workload_cases
from kernelsmith.model import Evaluation, Job
from kernelsmith.offline import cost, fit
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.sandbox.wire.messages import Choice, Tunable
from kernelsmith.text import size

Apart = Callable[[Chip | None], AbstractContextManager[Checker]]
"""A checker with processes of its own, whose candidate is recorded with a chip's own front end, or with upstream's."""


def asked(job: Job, room: Room) -> Job:
    """With the questions that `facts` stands for, on the device that the room has."""
    if not job.facts or job.without_device:
        return job
    chip = fit.chip_of(room.target)
    also = (*job.also, chip) if chip is not None and chip not in job.also else job.also
    return job.model_copy(update={"also": also, "counted": job.counted or cost.transaction_bytes(room.target)})


@dataclass(frozen=True)
class Facts:
    """Of one candidate, whose checker and launcher are at hand."""

    job: Job
    room: Room
    operator: LoadedOperator
    checker: Checker
    launcher: LauncherSession
    apart: Apart

    def told(self, picks: Mapping[str, Sequence[Choice]], tunables: Sequence[Tunable]) -> Evaluation:
        """A pass with what was asked for; `picks` are the configurations that won, by the workload's label."""
        job, passed = self.job, Evaluation(outcome=Outcome.PASSED, stage=Stage.CHECK)
        if not job.also and job.counted is None:
            return passed
        fronts: dict[Chip | None, list[Chip]] = {job.front: []}
        for chip in job.also:
            fronts.setdefault(chip if self.room.has_front(chip) else None, []).append(chip)
        recording = Recording(self.checker, fronts.pop(job.front), tunables)
        found = recording.all(self.operator, picks, every=job.every_config)
        builds = [*ported(found, self.checker, self.room.builds, job.source)]
        for front, chips in fronts.items():
            builds += self._elsewhere(front, chips, picks, tunables, found)
        taken = [one for one in found if one.taken]
        run = (self.checker.candidate, self.launcher) if job.without_device else None  # else nothing is ranked by it
        nbytes = job.counted
        builders, state = (self.checker, self.room.builds), self.operator.problem is None
        work = counted(taken, *builders, nbytes, run, state=state) if nbytes is not None else ()
        return passed.model_copy(update={"builds": tuple(builds), "counts": work, "fingerprint": fingerprint(taken)})

    def _elsewhere(
        self,
        front: Chip | None,
        chips: Sequence[Chip],
        picks: Mapping[str, Sequence[Choice]],
        tunables: Sequence[Tunable],
        known: Sequence[Recorded],
    ) -> Sequence[Build]:
        """Builds of what another front end makes; where that refuses the candidate, so do the chips."""
        try:
            with self.apart(front) as checker:
                found = Recording(checker, chips, tunables).all(self.operator, picks, every=self.job.every_config)
                return ported(found, checker, self.room.builds, self.job.source)
        except KilledFailure:
            raise
        except CandidateFailure as failure:
            kernels = dict.fromkeys(kernel.name for one in known for kernel in one.plan.kernels)
            who = "upstream Triton" if front is None else f"the front end of {front.label}"
            why = f"{who} refuses it: {failure.message}"[:MOST_CHARS]
            return [Build(kernel=k, chip=c, outcome=failure.outcome, message=why) for k in kernels for c in chips]


def refuse_workspace(checker: Checker, operator: LoadedOperator, most: int) -> None:
    """Raises CandidateFailure for the first tuned workload on which a call allocates more beside its outputs."""
    for case in workload_cases(operator):
        plan = checker.recorded(case).plan
        assert plan is not None
        taken = plan.workspace_bytes(state=operator.problem is None)
        if taken > most:
            message = (
                f"a call allocates {size(taken)} beside its outputs, and --max-workspace allows {size(most)}: "
                "keep partial results in registers, or in fewer bytes"
            )
            raise CandidateFailure(Outcome.RESOURCE_LIMIT, message, stage=Stage.CHECK).at(case.where())
