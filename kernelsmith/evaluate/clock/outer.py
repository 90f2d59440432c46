"""Bounds a launcher's claims about time by nothing but the judge's own clock.

Kernels are native code and may overwrite whatever the launcher measures with, so its nanoseconds are claims. They must
agree with rounds of another kind.

The whole memory of a plan lies in shared memory then, several times over for short kernels. The launcher is stopped,
every thread and process of it, while the judge writes inputs that no process with foreign code has seen before; then
the clock starts, the launcher goes on, does the plan's steps where the inputs lie, and answers. When it has been
stopped again, so does the clock, and some of the answers, which it cannot tell from the others, are compared whole.
Nothing is copied, reset or flushed meanwhile, so there is no work that a liar could leave out: what a clean launcher
needs for a question without steps is all that is taken off.

The bound: `n` replays, whose answers are not there before the work is done, take `spent >= n * truth` (whoever leaves
out a share `s` of them is caught with probability `1 - (1 - s) ** AUDITED`), and a claim stands where
`spent <= allowed = n * (FACTOR * claim + STEP_NS * steps) + EMPTY * empty` in one of `ROUNDS` rounds of about a
millisecond, with a while between them: other programs only add to `spent`. Otherwise the judge's clock counts instead
of the claim, so that from about 100 microseconds on nobody gains by claiming half of the truth; below that, what could
be gained is less than what a call costs in Python, which counts as well. A claim that is far off on a quiet machine is
nobody's misfortune any more, and refused.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from kernelsmith.errors import InfrastructureError
from kernelsmith.evaluate.check.check import Checker, Proven
from kernelsmith.evaluate.clock import noise
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.session import LauncherSession
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.plan import InputBuffer, LaunchPlan
from kernelsmith.sandbox.replay.replay import layout
from kernelsmith.sandbox.wire.arguments import Region
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.messages import Arrange
from kernelsmith.sandbox.wire.tensors import view_of

FACTOR = 1.75
"""How much longer than claimed a replay may take; colder memory made it 1.1 to 1.4 times as long in undisturbed rounds
of honest kernels of 10 microseconds to 2 milliseconds."""
STEP_NS = 20_000
"""For one step: 2 microseconds of a loop in Python, and up to 15 for waking threads that sleep on a busy machine."""
EMPTY = 1.5
"""How often the time of an empty question may be taken off, since it varies."""
LEAST_NS = 1_500_000
"""Claimed time per question: an empty one (0.25 ms) is a small part of it, and a busy machine still lets some
questions of that length pass undisturbed."""
AT_ONCE = 64
MIRROR_BYTES = 512 << 20
"""Most copies of a plan per question, and most memory for them; one copy there is always."""
ROUNDS = 20
"""The first that agrees with the claim is enough."""
GROSS = 2.0
"""Times what is allowed, from which on a claim is refused where the machine was quiet."""
AUDITED = 3
"""Answers of a round that are compared."""
EMPTY_QUESTIONS = 5
FRESH = 1 << 20
"""First content number (see `Checker.known`) that is kept for this."""
_PAGE = 4096


class OuterClock:
    """The judge's clock for one launcher; used while it has the device alone."""

    def __init__(self, checker: Checker, launcher: LauncherSession, clean: LauncherSession) -> None:
        """`clean` never runs anybody's kernel."""
        self._checker = checker
        self._launcher = launcher
        self._clean = clean
        self._random = random.Random()

    def believed(self, proven: Proven, claimed_ns: float) -> float:
        """Nanoseconds of a replay: what the launcher claims where the judge's clock agrees, else what that clock says.

        Raises CandidateFailure for a claim that no disturbance explains.
        """
        self._launcher.rest()
        count = _copies(proven.plan, claimed_ns)
        allowed = count * (FACTOR * claimed_ns + STEP_NS * len(proven.plan.steps)) + EMPTY * self.empty_ns
        spent = math.inf
        patience = noise.Patience(self._checker.excused, ROUNDS)
        for number in patience:
            contents = [FRESH + number * AT_ONCE + copy for copy in range(count)]
            self._random.shuffle(contents)
            taken, memory = self._question(proven, contents)
            if taken < spent:
                spent = taken
                self._audit(proven, contents, memory)
            if taken <= allowed:
                return claimed_ns
        if patience.disturbed or spent <= GROSS * allowed:
            return spent / count
        raise CandidateFailure(
            Outcome.SANDBOX_VIOLATION,
            f"the launcher claims {claimed_ns / 1e3:.1f} us for a replay, but {count} of them took at least "
            f"{spent / 1e3:.1f} us by the judge's clock",
            stage=Stage.BENCH,
            where=proven.case.where(replay=True),
        )

    @cached_property
    def empty_ns(self) -> int:
        """What an undisturbed honest launcher takes for a question without steps, nanoseconds."""
        try:
            return self._asked_nothing()
        except CandidateFailure as failure:  # it runs nobody's kernel
            raise InfrastructureError(f"a launcher without kernels failed: {failure.message}") from failure

    def _asked_nothing(self) -> int:
        plan = LaunchPlan(buffers=(), kernels=(), steps=(), outputs=())
        plan_id = self._clean.prepare(plan, None, self._checker.remaining(Stage.BENCH)).plan_id
        self._clean.rest()
        taken = []
        for _ in range(EMPTY_QUESTIONS):
            self._arrange(self._clean, plan_id, ())
            self._clean.run(seconds=self._checker.remaining(Stage.BENCH))
            taken.append(self._clean.asked_ns)
        return min(taken)

    def _arrange(self, launcher: LauncherSession, plan_id: int, copies: tuple[Region, ...]) -> Arena:
        mirror = launcher.desk.mirror(copies[-1].offset + copies[-1].nbytes if copies else 1)
        request = Arrange(plan_id=plan_id, copies=copies)
        launcher.arrange(request, mirror, seconds=self._checker.remaining(Stage.BENCH))
        return mirror

    def _question(self, proven: Proven, contents: Sequence[int]) -> tuple[int, npt.NDArray[np.uint8]]:
        """Nanoseconds from the moment at which the inputs could be seen until nobody could change the answers any more,
        and the memory of the replays, one row each."""
        starts, nbytes = layout(proven.plan.buffers)
        stride = -(-nbytes // _PAGE) * _PAGE
        copies = tuple(Region(offset=number * stride, nbytes=nbytes) for number in range(len(contents)))
        mirror = self._arrange(self._launcher, proven.plan_id, copies)
        memory = np.frombuffer(mirror.buffer, dtype=np.uint8, count=stride * len(copies)).reshape(-1, stride)
        for row, content in zip(memory, contents, strict=True):
            inputs = self._checker.drawn(proven.case, content).buffers()
            for start, buffer in zip(starts, proven.plan.buffers, strict=True):
                if isinstance(buffer, InputBuffer):
                    row[start : start + buffer.nbytes] = inputs[buffer.index].storage.numpy()
        self._launcher.run(seconds=self._checker.remaining(Stage.BENCH))
        return self._launcher.asked_ns, memory

    def _audit(self, proven: Proven, contents: Sequence[int], memory: npt.NDArray[np.uint8]) -> None:
        """Compare everything that some replays left behind. The lowest contents, wherever they lie: their truths are
        kept for the next candidate."""
        plan = proven.plan
        starts, _ = layout(plan.buffers)
        for content in sorted(contents)[:AUDITED]:
            row, known = memory[contents.index(content)], self._checker.known(proven.case, content)
            pairs = zip(starts, plan.buffers, strict=True)
            left = [torch.from_numpy(row[start : start + buffer.nbytes].copy()) for start, buffer in pairs]
            after = [buffer.storage for buffer in known.inputs.buffers()]
            for data, buffer in zip(left, plan.buffers, strict=True):
                if isinstance(buffer, InputBuffer):
                    after[buffer.index] = data
            returned = [view_of(left[view.buffer].untyped_storage(), view) for view in plan.outputs]
            if (finding := self._checker.judged(known, returned, after)) is not None:
                raise CandidateFailure(
                    finding.outcome,
                    f"in a replay under the judge's clock: {finding.message}",
                    stage=Stage.BENCH,
                    where=proven.case.where(replay=True),
                    mismatch=finding.mismatch,
                )


def _copies(plan: LaunchPlan, claimed_ns: float) -> int:
    _, nbytes = layout(plan.buffers)
    return max(1, min(AT_ONCE, math.ceil(LEAST_NS / claimed_ns), MIRROR_BYTES // max(nbytes, 1)))
