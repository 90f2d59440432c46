"""Is the candidate right? Case by case: real host calls, the plan they record, and its replay on contents that the
candidate's Python never saw.

For each case the host function is called on different contents in the same memory; every call's outputs, inputs and
neighbouring bytes are compared with the truth, and the plans of two calls in a row must be the same text (the first
call may differ: it may make a workspace). The plan is then replayed by the launcher, which holds no candidate Python,
on yet other contents; what the replay leaves behind is what counts. Raises CandidateFailure at the first thing wrong.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kernelsmith.evaluate import transport
from kernelsmith.evaluate.compare import Finding, compare, untouched
from kernelsmith.evaluate.inputs import Case
from kernelsmith.evaluate.session import CandidateFailure, CandidateSession, LauncherSession
from kernelsmith.evaluate.truths import Known, Truths
from kernelsmith.model import Outcome, Stage, digest
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.plan import LaunchPlan
from kernelsmith.sandbox.messages import Called, Choice, OutputTensor

CALLS = 3
"""Real calls per case, each on new contents: two whose plans must agree, after one that may set things up."""
FIRST_CALL_SECONDS = 60.0
"""A first call compiles; one more second per further kernel is never near this."""
POISONS = (0xFF, 0x00)
"""Fresh memory before a replay holds NaN, or zeros; alternating, so that neither is what a kernel may rely on."""


@dataclass(frozen=True)
class Proven:
    """A case whose plan is in the launcher, ready to be replayed or timed."""

    case: Case
    plan: LaunchPlan
    plan_id: int
    used: tuple[Choice, ...]
    """The configurations of the autotuned kernels that this call launches."""


class Checker:
    """Checks one candidate; used by one thread."""

    def __init__(
        self,
        truths: Truths,
        operator: LoadedOperator,
        candidate: CandidateSession,
        launcher: LauncherSession,
        *,
        seed: int,
        deadline: float,
    ) -> None:
        self._truths = truths
        self._operator = operator
        self._candidate = candidate
        self._launcher = launcher
        self._seed = seed
        self._deadline = deadline
        self.compile_seconds = 0.0
        self.calls = 0

    def known(self, case: Case, content: int) -> Known:
        """Inputs and truth of a case's content number `content`; the last of CALLS + 1 is kept for the replay."""
        return self._truths.get(self._operator, case, self.content_seed(content))

    def content_seed(self, content: int) -> int:
        """The seed of a content number; the baseline process draws the same inputs from it."""
        return int(digest(str(self._seed), str(content)), 16) >> 1

    def case(self, case: Case, choices: Sequence[Choice] = (), *, keep: bool = False) -> Proven:
        """Check one case whole; with `keep` the plan stays in the launcher."""
        try:
            proven = self._prepare(case, self._real_calls(case, tuple(choices)))
            try:
                self.replay(proven, CALLS, poison=POISONS[self.calls % 2])
            finally:
                if not keep:
                    self._launcher.forget(proven.plan_id)
        except CandidateFailure as failure:
            raise failure.at(case.where()) from None
        return proven

    def variant(self, case: Case, choices: Sequence[Choice]) -> Proven:
        """Record and build a case under other configurations, without judging it: enough to time it. Stays prepared."""
        known = self.known(case, 0)
        packed = transport.packed(known.inputs)
        desk = self._candidate.desk
        inputs, outputs = desk.inputs(packed.end), desk.outputs(transport.room_for(known.returned))
        transport.write(known.inputs, inputs, packed.regions)
        try:
            called = self._candidate.call(
                packed.arguments, inputs, outputs, choices=tuple(choices), record=True, seconds=self.remaining()
            )
            return self._prepare(case, called)
        except CandidateFailure as failure:
            raise failure.at(case.where()) from None

    def forget(self, proven: Proven) -> None:
        """Free a plan in the launcher."""
        self._launcher.forget(proven.plan_id)

    def again(self, case: Case, choices: Sequence[Choice] = ()) -> None:
        """One more real call, unrecorded and on new contents: after other shapes, and with nobody watching."""
        try:
            self._real_call(case, CALLS + 1, tuple(choices), record=False)
        except CandidateFailure as failure:
            raise failure.at(case.where(call=CALLS)) from None

    def judged(self, known: Known, returned: list[torch.Tensor], after: list[torch.Tensor]) -> Finding | None:
        """What is wrong with an answer: values first, then inputs and neighbouring bytes."""
        finding = compare(known.truth, returned, self._operator, known.inputs, after=after)
        return finding or untouched(self._operator, known.inputs, after)

    def remaining(self, most: float = FIRST_CALL_SECONDS) -> float:
        """Seconds that the next question may take."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise CandidateFailure(Outcome.TIMEOUT, "the time for this candidate is used up", stage=Stage.CHECK)
        return min(left, most)

    def _real_calls(self, case: Case, choices: tuple[Choice, ...]) -> Called:
        plans: list[LaunchPlan] = []
        for content in range(CALLS):
            called = self._real_call(case, content, choices, record=True)
            assert called.plan is not None
            plans.append(called.plan)
            if len(plans) > 1 and plans[-1].canonical() == plans[-2].canonical():
                return called
        raise CandidateFailure(
            Outcome.NOT_IN_PLAN,
            "what the host function asks of the device depends on the contents of its inputs, or changes from call to "
            f"call ({_difference(plans[-2], plans[-1])}); it may depend on shapes, dtypes, strides and scalars only",
            stage=Stage.RECORD,
        )

    def _real_call(self, case: Case, content: int, choices: tuple[Choice, ...], *, record: bool) -> Called:
        known = self.known(case, content)
        packed = transport.packed(known.inputs)
        desk = self._candidate.desk
        inputs, outputs = desk.inputs(packed.end), desk.outputs(transport.room_for(known.returned))
        transport.write(known.inputs, inputs, packed.regions)
        called = self._candidate.call(
            packed.arguments, inputs, outputs, choices=choices, record=record, seconds=self.remaining()
        )
        self.calls += 1
        after = transport.storages(inputs, packed.regions)
        finding = self.judged(known, transport.outputs(outputs, called.outputs), after)
        if finding is not None:
            raise _refused(finding, case, call=content, replay=False)
        return called

    def _prepare(self, case: Case, called: Called) -> Proven:
        assert called.plan is not None
        state = self._candidate.state(called.plan, self.remaining())
        try:
            prepared = self._launcher.prepare(called.plan, state, self.remaining())
        finally:
            if state is not None:
                state.close()
        self.compile_seconds += sum(kernel.seconds for kernel in prepared.kernels)
        return Proven(case, called.plan, prepared.plan_id, called.choices)

    def replay(self, proven: Proven, content: int, *, poison: int) -> tuple[OutputTensor, ...]:
        """Replay on a content and compare everything."""
        known = self.known(proven.case, content)
        packed = transport.packed(known.inputs)
        desk = self._launcher.desk
        inputs, outputs = desk.inputs(packed.end), desk.outputs(transport.room_for(known.returned))
        transport.write(known.inputs, inputs, packed.regions)
        replayed = self._launcher.replay(
            proven.plan_id, packed.regions, inputs, outputs, poison=poison, seconds=self.remaining()
        )
        after = transport.storages(inputs, packed.regions)
        finding = self.judged(known, transport.outputs(outputs, replayed.outputs), after)
        if finding is not None:
            raise _refused(finding, proven.case, call=0, replay=True)
        if replayed.overrun:
            raise CandidateFailure(
                Outcome.OUT_OF_BOUNDS,
                "a kernel writes beside a tensor that the host function allocated",
                stage=Stage.CHECK,
                where=proven.case.where(replay=True),
            )
        if not replayed.state_intact:
            raise CandidateFailure(
                Outcome.NOT_IN_PLAN,
                "memory kept between calls does not end as it began: later calls would depend on earlier ones",
                stage=Stage.CHECK,
                where=proven.case.where(replay=True),
            )
        return replayed.outputs


def _refused(finding: Finding, case: Case, *, call: int, replay: bool) -> CandidateFailure:
    return CandidateFailure(
        finding.outcome,
        finding.message,
        stage=Stage.CHECK,
        where=case.where(call=call, replay=replay),
        mismatch=finding.mismatch,
    )


def _difference(one: LaunchPlan, other: LaunchPlan) -> str:
    """The first thing in which two plans differ, in a few words."""
    if len(one.steps) != len(other.steps):
        return f"{len(one.steps)} steps in one call, {len(other.steps)} in the next"
    for number, (a, b) in enumerate(zip(one.steps, other.steps, strict=True)):
        if a != b:
            other_kind = "another" if a.kind == b.kind else f"a {b.kind}"
            return f"step {number} is a {a.kind} in one call and {other_kind} in the next"
    if len(one.buffers) != len(other.buffers):
        return f"{len(one.buffers)} buffers in one call, {len(other.buffers)} in the next"
    return "the contents of its constants or of memory it keeps differ"
