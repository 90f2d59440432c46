"""Whose answer is it when nobody records the call: the kernels', or one that the host function made elsewhere?

A recorded call runs under a dispatch mode, which host code can see. A two-faced host function launches its kernels
then; otherwise it launches decoys of the same names and grids, and returns what torch or NumPy computed. So some of the
unrecorded calls take place in two worlds: the tensors that the host function holds have one content, and its kernels
are given the same tensors over memory that holds another one (`sandbox.elsewhere`). An honest answer is right for what
the kernels saw. Inputs that the plan fills, copies or points to stay the same in both worlds; where that is so for any
input of a workload, its kernels do not run at all in one more call, after which no answer may be right.

Invariant: an honest host function never fails here, since nothing but its kernels touches what was moved, and since an
operator whose answer needs no kernel is refused when it is read (`trivial`). Known limits: a host function that does
the kernels' whole work too and compares is only bounded by the clock around its real calls (`bench`), and one that
tells from a kernel's effect whether it ran escapes the last kind of call. `check` calls this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import torch

from kernelsmith.evaluate.sessions import transport
from kernelsmith.evaluate.sessions.failure import CandidateFailure
from kernelsmith.evaluate.sessions.session import CandidateSession
from kernelsmith.evaluate.truth.compare import Finding
from kernelsmith.evaluate.truth.truths import Known
from kernelsmith.outcome import Outcome, Stage
from kernelsmith.plan import ConstantBuffer, InputBuffer, Launch, LaunchPlan, PointerArgument
from kernelsmith.sandbox.wire.messages import Called, Choice, Launched

Answer = tuple[Called, list[torch.Tensor], list[torch.Tensor]]
"""A reply, the returned tensors, and the storages of the inputs as they are afterwards."""


@dataclass(frozen=True)
class Unwatched:
    """Unrecorded calls of one candidate. `wrong` judges an answer to a known content, `meant_to_be` one that should be
    wrong; `remaining` gives seconds."""

    candidate: CandidateSession
    wrong: Callable[[Known, Answer], Finding | None]
    meant_to_be: Callable[[Known, Answer], Finding | None]
    remaining: Callable[[], float]

    def apart(self, plan: LaunchPlan, host: Known, kernels: Known, choices: tuple[Choice, ...]) -> Called:
        """A call in two worlds: `host` is what it finds in its tensors, `kernels` (new to it) what its kernels find."""
        storages = [buffer.storage for buffer in host.inputs.buffers()]
        answer = self._call(kernels, choices, moved={index: storages[index] for index in movable(plan)})
        if finding := self.wrong(kernels, answer):
            plainly = self.wrong(kernels, self._call(kernels, choices))
            if plainly:  # it is wrong on these contents whoever sees them
                raise CandidateFailure(plainly.outcome, plainly.message, stage=Stage.CHECK, mismatch=plainly.mismatch)
            raise _two_faced(f"given other contents than it, they do not give its answer ({finding.message})")
        return answer[0]

    def idle(self, contents: Sequence[Known], choices: tuple[Choice, ...]) -> None:
        """Calls whose kernels do not run, on contents new to it: an answer that is right to all was made without."""
        for known in contents:
            try:
                if self.meant_to_be(known, self._call(known, choices, launch=False)):
                    return
            except CandidateFailure as failure:
                if failure.outcome is Outcome.RUNTIME_ERROR:  # what it found in the output made no sense to it
                    return
                raise
        raise _two_faced("its answer is right even if none of them runs")

    def _call(
        self,
        known: Known,
        choices: tuple[Choice, ...],
        *,
        moved: Mapping[int, torch.Tensor] = MappingProxyType({}),
        launch: bool = True,
    ) -> Answer:
        """In place of the inputs in `moved`, the host function finds what is given there.

        Raises CandidateFailure also where it writes to them itself, which only its kernels may.
        """
        here = transport.packed(known.inputs)
        there = transport.packed(known.inputs, here.end) if moved else here
        desk = self.candidate.desk
        arena, outputs = desk.inputs(there.end), desk.outputs(transport.room_for(known.returned))
        transport.write(known.inputs, arena, here.regions)
        for index, content in moved.items():
            transport.in_place(arena, there.regions[index]).copy_(known.inputs.buffers()[index].storage)
            transport.in_place(arena, here.regions[index]).copy_(content)
        called = self.candidate.call(
            here.arguments,
            arena,
            outputs,
            choices=choices,
            record=False,
            elsewhere=tuple(r if i in moved else None for i, r in enumerate(there.regions)),
            launch=launch,
            seconds=self.remaining(),
        )
        after = transport.storages(arena, here.regions)
        for index, content in moved.items():
            if not torch.equal(after[index], content):
                raise _two_faced("it writes to an argument by itself")
            (after[index],) = transport.storages(arena, [there.regions[index]])
        return called, transport.outputs(outputs, called.outputs), after


def movable(plan: LaunchPlan) -> frozenset[int]:
    """Inputs, by index, that kernels are given as they are and that no fill, copy or pointer table touches."""
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    given = {a.view.buffer for step in launches for a in step.arguments if isinstance(a, PointerArgument)}
    aten = tuple(step for step in plan.steps if not isinstance(step, Launch))
    touched = {view.buffer for view in plan.model_copy(update={"steps": aten, "outputs": ()}).views()}
    touched |= {r.buffer for b in plan.buffers if isinstance(b, ConstantBuffer) for r in b.relocations}
    inputs = {b.index: number for number, b in enumerate(plan.buffers) if isinstance(b, InputBuffer)}
    return frozenset(index for index, number in inputs.items() if number in given - touched)


def _two_faced(found: str) -> CandidateFailure:
    return CandidateFailure(
        Outcome.NOT_IN_PLAN,
        f"when it is not recorded, the host function does not return what its kernels compute: {found}",
        stage=Stage.RECORD,
    )


def same_launches(unwatched: Called, recorded: Called) -> None:
    """A host function that does its work elsewhere when it is not recorded has a plan that is not its own."""
    assert recorded.plan is not None
    steps = [step for step in recorded.plan.steps if isinstance(step, Launch)]
    planned = tuple(Launched(kernel=recorded.plan.kernels[step.kernel].name, grid=step.grid) for step in steps)
    if unwatched.launches != planned:
        raise CandidateFailure(
            Outcome.NOT_IN_PLAN,
            f"the host function does something else when it is not recorded: it launches {_words(unwatched.launches)} "
            f"then, and {_words(planned)} when it is recorded",
            stage=Stage.RECORD,
        )


def _words(launches: Sequence[Launched]) -> str:
    shown = ", ".join(f"{launch.kernel}{list(launch.grid)}" for launch in launches[:3])
    return (shown + (f" and {len(launches) - 3} more" if len(launches) > 3 else "")) or "no kernel"
