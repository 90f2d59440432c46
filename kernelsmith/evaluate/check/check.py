"""Is the candidate right? Case by case: real host calls, the plan they record, and its replay on contents that the
candidate's Python never saw.

For each case the host function is called on different contents in the same memory; every call's outputs, inputs and
neighbouring bytes are compared with the truth, and the plans of two calls in a row must be the same text (the first
call may differ: it may make a workspace). The plan is then replayed by the launcher, which holds no candidate Python,
on yet other contents and, where the grid is small, with its programs in an unusual order; what the replay leaves behind
is what counts. Raises CandidateFailure at the first thing wrong.
"""

from __future__ import annotations

import itertools
import math
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import torch

from kernelsmith.base import digest
from kernelsmith.evaluate.check.collector import Collector
from kernelsmith.evaluate.check.examine import EXPLAINED, Examiner, key
from kernelsmith.evaluate.check.plans import blocks, difference, lent, programs, settled
from kernelsmith.evaluate.check.properties import violated
from kernelsmith.evaluate.check.unwatched import Answer, Unwatched, movable, same_launches
from kernelsmith.evaluate.sessions import allowance, transport
from kernelsmith.evaluate.sessions.failure import CandidateFailure, Suspect
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.evaluate.truth.compare import Finding, compare, held_otherwise, untouched
from kernelsmith.evaluate.truth.inputs import CallInputs, Case, changeable, materialise
from kernelsmith.evaluate.truth.margins import Margins
from kernelsmith.evaluate.truth.truths import Known, Truths
from kernelsmith.operators.load import LoadedOperator
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.plan import LaunchPlan
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.messages import Called, Choice, Order, Replay

AGREEING, AGREEING_FIRST, FIRST_CASES = 2, 3, 3
"""Calls in a row, each on new contents, whose plans must be the same text: two, and three in the first cases."""
CALLS = AGREEING_FIRST + 1
"""Most real calls per case: those that must agree, after one that may set things up."""
POISONS = (0xFF, 0x00)
"""Fresh memory before a replay holds NaN, or zeros; alternating, so that neither is what a kernel may rely on."""
ORDERS = (Order.APART, Order.BACKWARDS)
"""How the programs of small grids run in replays, by turns; real calls and large replays show the device's own way."""
MOST_ORDERED = 4096
"""Program instances up to which a plan is replayed so."""
ORDERED_SECONDS = 5.0
"""What such a replay may take beyond MULTIPLE times a real call; small cases take milliseconds unless they hang."""
MULTIPLE = 20.0


@dataclass(frozen=True)
class Recorded:
    """A case whose real calls were right."""

    case: Case
    called: Called
    state: Arena | None
    """Initial contents of the plan's state buffers; whoever prepares the plan closes it."""
    seconds: float
    """What the last call took."""


@dataclass(frozen=True)
class Proven:
    """A case whose plan is in the launcher, ready to be replayed or timed."""

    case: Case
    plan: LaunchPlan
    plan_id: int
    used: tuple[Choice, ...]
    """The configurations of the autotuned kernels that this call launches."""


class Checker:
    """Checks one candidate; used by one thread, and by one of its own that looks after the launcher in `cases`."""

    def __init__(
        self,
        truths: Truths,
        operator: LoadedOperator,
        candidate: CandidateSession,
        launcher: LauncherSession,
        *,
        seed: int,
        time: OwnTime,
        examiner: Examiner | None = None,
        collector: Collector | None = None,
        once: bool = False,
    ) -> None:
        """`once`: one recorded call per case must do, as for a walk over thousands of them."""
        self.collector = collector or Collector()
        self._truths = truths
        self._operator = operator
        self.candidate = candidate
        self._launcher = launcher
        self._seed = seed
        self._time = time
        self._examiner = examiner
        self._examined: frozenset[str] = frozenset()
        self.compile_seconds = 0.0
        self.blocks: Counter[int] = Counter()
        """Of kernels, by the number of cases in whose plans they occur."""
        self._poisons = itertools.cycle(POISONS)
        self._orders = itertools.cycle(ORDERS)
        self._random = random.Random(seed)
        self._unwatched = Unwatched(candidate, self._wrong, partial(self._wrong, margins=Margins()), self.remaining)
        first = [] if once else [AGREEING_FIRST] * FIRST_CASES
        self._agreeing = itertools.chain(first, itertools.repeat(1 if once else AGREEING))

    def known(self, case: Case, content: int) -> Known:
        """Inputs and truth of a case's content number `content`; the last of CALLS + 1 is kept for the replay."""
        with self.excused():
            return self._truths.get(self._operator, case, self.content_seed(content))

    def drawn(self, case: Case, content: int) -> CallInputs:
        """The inputs of a content number alone."""
        with self.excused():
            return materialise(self._operator, case, self.content_seed(content))

    def altered(self, case: Case, content: int) -> Known:
        """That content with a few elements replaced; a KernelBench problem's inputs, whose elements may belong
        together in ways it cannot say, are replaced whole."""
        if self._operator.problem is not None:
            return self.known(case, content + 1)
        seed, other = self.content_seed(content), self.content_seed(content + 1)
        with self.excused():
            return self._truths.get(self._operator, case, seed, altered_by=other)

    def changeable(self, case: Case) -> list[bool]:
        """Per tensor of the case, whether single elements may be exchanged; a KernelBench problem does not say what its
        integers mean, so only its floats may."""
        inputs = self.known(case, 0).inputs
        if self._operator.problem is not None:
            return [getattr(torch, b.view.dtype).is_floating_point for b in inputs.buffers()]
        return [changeable(self._operator, name) for name in inputs.buffer_names()]

    def content_seed(self, content: int) -> int:
        """The seed of a content number; the baseline process draws the same inputs from it."""
        return int(digest(str(self._seed), str(content)), 16) >> 1

    def cases(self, cases: Iterable[Case], examined: frozenset[str] = frozenset()) -> None:
        """Check many cases, those in `examined` (see `examine.key`) with checked builds too.

        While the launcher builds and replays one, the candidate is called on the next; what is raised is the first
        thing wrong in the order of the cases.
        """
        self._examined = examined
        with ThreadPoolExecutor(1, thread_name_prefix="launcher") as lane:
            earlier: Future[Proven] | None = None
            try:
                for case in cases:
                    replaying = lane.submit(self._proven, self._recorded(case, ()))
                    if earlier is not None:
                        earlier.result()
                    earlier = replaying
            except CandidateFailure:
                if earlier is not None:
                    earlier.result()
                raise
            if earlier is not None:
                earlier.result()

    def case(self, case: Case, choices: Sequence[Choice] = (), *, keep: bool = False) -> Proven:
        """Check one case whole; with `keep` the plan stays in the launcher."""
        return self._proven(self._recorded(case, tuple(choices)), keep=keep)

    def variant(self, case: Case, choices: Sequence[Choice]) -> Proven:
        """Record and build a case under other configurations, without judging it: enough to time it. Stays prepared."""
        try:
            return self._prepare(self._with_state(case, self.recorded(case, choices)))
        except CandidateFailure as failure:
            raise failure.at(case.where()) from None

    def recorded(self, case: Case, choices: Sequence[Choice] = ()) -> Called:
        """One more recorded call, which nobody judges."""
        known = self.known(case, 0)
        return self._called(known.inputs, known.returned, tuple(choices), record=True)[0]

    def explain(self, failure: CandidateFailure) -> None:
        """Say what checked builds of the kernels find where an answer was wrong; nothing else may be going on."""
        suspect = failure.suspect
        if suspect is None or self._examiner is None or failure.outcome not in EXPLAINED:
            return
        try:
            plan_id = suspect.plan_id
            if plan_id is None:
                assert suspect.called is not None
                plan_id = self._prepare(self._with_state(suspect.case, suspect.called)).plan_id
            self._examiner.explain(failure, plan_id, self.known(suspect.case, suspect.content), self.remaining)
        except CandidateFailure:  # it has failed already; that it fails at this as well says nothing new
            return

    def forget(self, proven: Proven) -> None:
        """Free a plan in the launcher."""
        self._launcher.forget(proven.plan_id)

    def again(self, case: Case, choices: Sequence[Choice] = ()) -> None:
        """Real calls that are not recorded: after other shapes, on nearly the same contents as a call before, so that
        an answer that was kept is a wrong one, and in two worlds (see `unwatched`), in an order that nobody can tell.
        They launch what a recorded call does.

        A tuned workload, often large, gets contents whose truth is known already."""
        small, chosen = case.workload is None, tuple(choices)
        first, second = (CALLS + 1, CALLS + 1) if small else (0, 1)
        try:
            unwatched = self._real_call(case, first, chosen, record=False)
            recorded = self._real_call(case, first, chosen, record=True)
            assert recorded.plan is not None
            host, kernels = self.known(case, first), self.known(case, CALLS)
            calls = [
                partial(self._real_call, case, second, chosen, record=False, altered=small),
                partial(self._unwatched.apart, recorded.plan, host, kernels, chosen),
            ]
            self._random.shuffle(calls)
            for one in (unwatched, *(call() for call in calls)):
                same_launches(one, recorded)
            if not small and recorded.plan.launches and len(movable(recorded.plan)) < len(host.inputs.buffers()):
                self._unwatched.idle([kernels, self.known(case, CALLS + 1)], chosen)
        except CandidateFailure as failure:
            raise failure.at(case.where(call=CALLS + 1)) from None

    def ordinary(self, case: Case, choices: Sequence[Choice]) -> None:
        """One real call of a workload that is not recorded, compared like any other; for whoever looks at the clock."""
        try:
            self._real_call(case, 1, tuple(choices), record=False)
        except CandidateFailure as failure:
            raise failure.at(case.where(call=1)) from None

    def properties(self, case: Case) -> None:
        """What the operator says of several calls together, if it does."""
        if self._operator.properties is None:
            return
        known = self.known(case, CALLS + 1)

        def answer(inputs: CallInputs) -> tuple[object, list[torch.Tensor]]:
            called, returned, after = self._called(inputs, known.returned, (), record=False)
            if finding := untouched(self._operator, inputs, after):
                raise _refused(finding, case, call=CALLS + 1, replay=False)
            return (returned[0] if called.structure.kind == "tensor" else tuple(returned)), after

        try:
            finding = violated(self._operator, known.inputs, answer)
        except CandidateFailure as failure:
            raise failure.at(case.where(call=CALLS + 1)) from None
        if finding is not None:
            raise _refused(finding, case, call=CALLS + 1, replay=False)

    def judged(
        self, known: Known, returned: list[torch.Tensor], after: list[torch.Tensor], margins: Margins | None = None
    ) -> Finding | None:
        """What is wrong with an answer: values first, then inputs and neighbouring bytes."""
        noted = self.collector.margins if margins is None else margins
        finding = compare(known.truth, returned, self._operator, known.inputs, after=after, margins=noted)
        return finding or untouched(self._operator, known.inputs, after)

    @contextmanager
    def excused(self) -> Iterator[None]:
        """What passes inside is not the candidate's time: truths, baselines, waiting for the device."""
        with self._time.excused():
            yield

    def remaining(self, stage: Stage = Stage.CHECK, most: float = math.inf) -> float:
        """Seconds that the next question, one of this stage, may take."""
        left = self._time.left
        if left <= 0:
            raise CandidateFailure(Outcome.TIMEOUT, "the time for this candidate is used up", stage=Stage.CHECK)
        return min(left, most, allowance.SECONDS[stage])

    def _recorded(self, case: Case, choices: tuple[Choice, ...]) -> Recorded:
        try:
            return self._real_calls(case, choices)
        except CandidateFailure as failure:
            raise failure.at(case.where()) from None

    def _proven(self, recorded: Recorded, *, keep: bool = False) -> Proven:
        try:
            proven = self._prepare(recorded)
            self._replay(proven, recorded.seconds)
            if self._examiner is not None and key(recorded.case) in self._examined:
                known = self.known(recorded.case, CALLS)
                if self._examiner.refuse(proven.plan, proven.plan_id, known, self.judged, self.remaining):
                    self.collector.examined()
            if not keep:
                self._launcher.forget(proven.plan_id)
        except CandidateFailure as failure:
            raise failure.at(recorded.case.where()) from None
        return proven

    def _real_calls(self, case: Case, choices: tuple[Choice, ...]) -> Recorded:
        plans: list[LaunchPlan] = []
        agree = next(self._agreeing)
        for content in range(agree + 1):
            begin = time.monotonic()
            called = self._real_call(case, content, choices, record=True)
            assert called.plan is not None
            plans.append(called.plan)
            if len(plans) >= agree and (shared := settled(plans[-agree:])):
                self.blocks.update(blocks(shared))
                return self._with_state(case, called.model_copy(update={"plan": shared}), time.monotonic() - begin)
        changing = CandidateFailure(
            Outcome.NOT_IN_PLAN,
            "what the host function asks of the device depends on the contents of its inputs, or changes from call to "
            f"call ({difference(plans[-2], plans[-1])}); it may depend on shapes, dtypes, strides and scalars only",
            stage=Stage.RECORD,
        )
        changing.suspect = Suspect(case, 0, called=called)
        raise changing

    def _real_call(
        self, case: Case, content: int, choices: tuple[Choice, ...], *, record: bool, altered: bool = False
    ) -> Called:
        known = self.altered(case, content) if altered else self.known(case, content)
        answer = self._called(known.inputs, known.returned, choices, record=record)
        self.collector.ran(case.where())
        called, finding = answer[0], self._wrong(known, answer)
        if finding is None and called.plan is not None:
            finding = lent(called.plan, known.truth)
        if finding is not None and altered:
            finding = replace(finding, message=f"called again on nearly the same contents: {finding.message}")
        if finding is not None:
            refused = _refused(finding, case, call=content, replay=False)
            refused.suspect = Suspect(case, content, called=called) if record else None
            raise refused
        return called

    def _called(
        self, inputs: CallInputs, returns: Sequence[torch.Tensor], choices: tuple[Choice, ...], *, record: bool
    ) -> Answer:
        """One real call, with room for tensors like `returns`."""
        packed = transport.packed(inputs)
        desk = self.candidate.desk
        given, outputs = desk.inputs(packed.end), desk.outputs(transport.room_for(returns))
        transport.write(inputs, given, packed.regions)
        called = self.candidate.call(
            packed.arguments, given, outputs, choices=choices, record=record, seconds=self.remaining(Stage.RECORD)
        )
        return called, transport.outputs(outputs, called.outputs), transport.storages(given, packed.regions)

    def _wrong(self, known: Known, answer: Answer, margins: Margins | None = None) -> Finding | None:
        called, returned, after = answer
        structure = held_otherwise(known.truth, called.structure.kind, len(returned))
        return structure or self.judged(known, returned, after, margins)

    def _with_state(self, case: Case, called: Called, seconds: float = 0.0) -> Recorded:
        assert called.plan is not None
        return Recorded(case, called, self.candidate.state(called.plan, self.remaining(Stage.RECORD)), seconds)

    def _prepare(self, recorded: Recorded) -> Proven:
        called, state = recorded.called, recorded.state
        assert called.plan is not None
        try:
            prepared = self._launcher.prepare(called.plan, state, self.remaining(Stage.COMPILE))
        finally:
            if state is not None:
                state.close()
        self.compile_seconds += sum(kernel.seconds for kernel in prepared.kernels)
        return Proven(recorded.case, called.plan, prepared.plan_id, called.choices)

    def _replay(self, proven: Proven, call_seconds: float) -> None:
        """Replay on contents of its own and compare everything; small grids in an unusual order."""
        poison = next(self._poisons)
        if proven.case.workload is not None or not 1 < programs(proven.plan) <= MOST_ORDERED:
            failure = self._replayed(proven, poison, Order.DEVICE, self.remaining())
        else:
            seconds = self.remaining(most=ORDERED_SECONDS + MULTIPLE * call_seconds)
            failure = self._ordered(proven, poison, next(self._orders), seconds)
        if failure is not None:
            raise failure

    def _ordered(self, proven: Proven, poison: int, order: Order, seconds: float) -> CandidateFailure | None:
        """What is wrong with a replay whose programs run in an unusual order; said if it is due to the order."""
        try:
            failure = self._replayed(proven, poison, order, seconds)
        except CandidateFailure as ended:
            if ended.outcome is Outcome.TIMEOUT:
                ended.message = (
                    "a kernel hangs if its programs run one by one, the last one first: it depends on the order in "
                    f"which programs run, which is not promised (no end after {seconds:.0f} s)"
                )
            raise
        if failure is None or self._replayed(proven, poison, Order.DEVICE, self.remaining()) is not None:
            return failure
        failure.outcome = Outcome.RACE
        failure.message = (
            "the answer depends on the order in which programs run, which is not promised; "
            f"in another one, {failure.message}"
        )
        return failure

    def _replayed(self, proven: Proven, poison: int, order: Order, seconds: float) -> CandidateFailure | None:
        known = self.known(proven.case, CALLS)
        packed = transport.packed(known.inputs)
        desk = self._launcher.desk
        inputs, outputs = desk.inputs(packed.end), desk.outputs(transport.room_for(known.returned))
        transport.write(known.inputs, inputs, packed.regions)
        request = Replay(plan_id=proven.plan_id, inputs=packed.regions, poison=poison, order=order)
        replayed = self._launcher.replay(request, inputs, outputs, seconds=seconds)
        after = transport.storages(inputs, packed.regions)
        self.collector.ran(proven.case.where())
        finding = self.judged(known, transport.outputs(outputs, replayed.outputs), after)
        if finding is None and replayed.overrun:
            finding = Finding(Outcome.OUT_OF_BOUNDS, "a kernel writes beside a tensor that the host function allocated")
        if finding is None and not replayed.state_intact:
            message = "memory kept between calls does not end as it began: later calls would depend on earlier ones"
            finding = Finding(Outcome.NOT_IN_PLAN, message)
        if finding is None:
            return None
        failure = _refused(finding, proven.case, call=0, replay=True)
        failure.suspect = Suspect(proven.case, CALLS, plan_id=proven.plan_id)
        return failure


def _refused(finding: Finding, case: Case, *, call: int, replay: bool) -> CandidateFailure:
    return CandidateFailure(
        finding.outcome,
        finding.message,
        stage=Stage.CHECK,
        where=case.where(call=call, replay=replay),
        mismatch=finding.mismatch,
    )
