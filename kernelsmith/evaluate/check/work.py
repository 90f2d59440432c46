"""The work of a candidate's kernels on each tuned workload, and of what torch does for it on the device.

Invariant: a workload has the work of all its steps, or says what is missing; `offline.count` counts, in confined
processes, and what is run for it is a replay of the plan with counters in its kernels, so that nothing which the
kernels do can be hidden from it. Asked by `evaluate` once the candidate has passed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import torch

from kernelsmith.estimate import Counts, Work
from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.check.ports import Recorded
from kernelsmith.evaluate.sessions import transport
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.offline.builds import Builds
from kernelsmith.offline.count import BUFFER_BITS
from kernelsmith.offline.tallied import tallied
from kernelsmith.offline.wire import Count, Counted, Launched
from kernelsmith.outcome import Stage
from kernelsmith.plan import ITEM_SIZES, Copy, Fill, Launch, LaunchPlan, NullArgument, PointerArgument, ScalarArgument
from kernelsmith.sandbox.wire.messages import Replay

_MOST_WORDS = 16
Entries = Sequence[tuple[int, ...] | None]
"""Of each launch of a plan in turn: how often its blocks were entered, None where it has not run with counters."""


def counted(
    found: Sequence[Recorded],
    checker: Checker,
    builds: Builds,
    transaction_bytes: int,
    run: tuple[CandidateSession, LauncherSession] | None = None,
    *,
    state: bool = True,
) -> tuple[Counts, ...]:
    """The work of each tuned workload; `run`: the processes on the processor in which its plan is replayed for it.
    `state`: whether what is kept between calls is workspace, and not a model's parameters."""
    counts = []
    for one in found:
        known, missing = checker.known(one.case, 0), []
        entries: Entries = [None] * len(one.plan.steps)
        if run is not None and one.plan.kernels:
            try:
                entries = _entries(one, checker, *run)
            except (CandidateFailure, ValueError) as error:
                missing.append(f"its kernels do not run with counters: {error}")
        with checker.excused():
            replies = [builds.count(request) for request in _requests(one.plan, entries, transaction_bytes)]
        assumed = [text for reply in replies if isinstance(reply, Counted) for text in reply.assumed]
        missing += [reply.message for reply in replies if not isinstance(reply, Counted)]
        kernels = [reply.work for reply in replies if isinstance(reply, Counted)]
        counts.append(
            Counts(
                workload=one.label,
                weight=one.case.workload.weight if one.case.workload is not None else 1.0,
                needed_bytes=known.input_bytes + known.output_bytes,
                workspace_bytes=one.plan.workspace_bytes(state=state),
                kernels=(*kernels, *_by_torch(one.plan, transaction_bytes)),
                assumed=tuple(dict.fromkeys(assumed))[:_MOST_WORDS],
                missing=tuple(dict.fromkeys(missing))[:_MOST_WORDS],
            )
        )
    return tuple(counts)


def _entries(one: Recorded, checker: Checker, candidate: CandidateSession, launcher: LauncherSession) -> Entries:
    """The plan replayed with counters; raises CandidateFailure, and ValueError for a plan that has no room for them."""
    told, known = tallied(one.plan), checker.known(one.case, 0)
    called = checker.recorded(one.case, one.choices)
    assert called.plan is not None
    state = candidate.state(called.plan, checker.remaining(Stage.RECORD))
    try:
        plan_id = launcher.prepare(told.plan, state, checker.remaining(Stage.COMPILE)).plan_id
    finally:
        if state is not None:
            state.close()
    packed, row = transport.packed(known.inputs), torch.empty(sum(told.lengths), dtype=torch.int64)
    inputs, outputs = launcher.desk.inputs(packed.end), launcher.desk.outputs(transport.room_for([row]))
    transport.write(known.inputs, inputs, packed.regions)
    request = Replay(plan_id=plan_id, inputs=packed.regions, poison=0xFF)
    replayed = launcher.replay(request, inputs, outputs, seconds=checker.remaining())
    (row,) = transport.outputs(outputs, replayed.outputs)
    launcher.forget(plan_id)
    if row.dtype is not torch.int64 or row.shape != (sum(told.lengths),):
        raise ValueError("another tensor came back")
    numbers = iter(row.tolist())
    return [tuple(itertools.islice(numbers, length)) for length in told.lengths]


def _requests(plan: LaunchPlan, entries: Entries, transaction_bytes: int) -> Iterator[Count]:
    """One per kernel that is launched, with made-up addresses of its buffers."""
    buffers = {number: buffer.nbytes for number, buffer in enumerate(plan.buffers)}
    in_turn = [step for step in plan.steps if isinstance(step, Launch)]
    for number, kernel in enumerate(plan.kernels):
        launched = tuple(
            Launched(grid=step.grid, arguments=tuple(map(_followed, step.arguments)), entries=entered)
            for step, entered in zip(in_turn, entries, strict=False)
            if step.kernel == number
        )
        if launched:
            yield Count(kernel=kernel, launches=launched, buffers=buffers, transaction_bytes=transaction_bytes)


def _followed(argument: PointerArgument | ScalarArgument | NullArgument) -> int | None:
    match argument:
        case PointerArgument(view=view):
            return (view.buffer << BUFFER_BITS) + view.offset * ITEM_SIZES[view.dtype]
        case ScalarArgument(value=int() as value):
            return value
    return None


def _by_torch(plan: LaunchPlan, transaction_bytes: int) -> Iterator[Work]:
    """Copies and fills, which are kernels of torch's on a device."""
    for name, kind in (("copies by torch", Copy), ("fills by torch", Fill)):
        steps = [step for step in plan.steps if isinstance(step, kind)]
        written = sum(step.out.numel * ITEM_SIZES[step.out.dtype] for step in steps)
        read = sum(step.source.numel * ITEM_SIZES[step.source.dtype] for step in steps if isinstance(step, Copy))
        if steps:
            yield Work(
                kernel=name,
                launches=len(steps),
                programs=len(steps),
                read_bytes=read,
                written_bytes=written,
                distinct_bytes=read + written,
                asked_bytes=read + written,
                transaction_bytes=transaction_bytes,
            )
