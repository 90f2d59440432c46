"""Replays a plan with checked builds of its kernels, to find what no comparison of answers can show.

Every pointer argument of a launch is the tensor view that the plan says it is; memory that the plan allocates is
unwritten until a step writes to it. Invariant: what is reported are the faults of the first step that has any, since
those of later steps may follow from them. The launcher asks; the device compiles, `triton_cpu.monitor` watches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from kernelsmith.faults import Fault, FaultKind, Schedule
from kernelsmith.plan import (
    ITEM_SIZES,
    ConstantBuffer,
    Copy,
    Fill,
    Kernel,
    Launch,
    PointerArgument,
    ScratchBuffer,
    View,
)
from kernelsmith.sandbox.replay.replay import CheckedKernel, Workspace, plan_faults
from kernelsmith.sandbox.wire.kernel_text import parameter_names
from kernelsmith.sandbox.wire.messages import HOST
from kernelsmith.triton_cpu.watch.monitor import Memory, Segment

POISON = 0xFF
"""Of fresh memory: NaN in every floating type."""


class Examination:
    """The checked builds of one workspace's kernels, each compiled when a step first needs it."""

    def __init__(self, workspace: Workspace, compile_checked: Callable[[Kernel], CheckedKernel]) -> None:
        self._workspace = workspace
        self._plan = workspace.plan
        self._compile = compile_checked
        self._kernels: dict[int, CheckedKernel] = {}
        self._memory = Memory(assume_written=False)
        self._tables = self._reachable()

    def run(self, inputs: Sequence[torch.Tensor], *, schedule: Schedule, seed: int) -> tuple[Fault, ...]:
        """One replay; the inputs are left alone. Raises as `Workspace.reset` and `compile_checked` do."""
        self._workspace.reset(inputs, POISON)
        return self.replay(schedule=schedule, seed=seed)

    def replay(self, *, schedule: Schedule, seed: int) -> tuple[Fault, ...]:
        """One replay in a workspace that has been reset."""
        self._forget()
        for number, step in enumerate(self._plan.steps):
            if isinstance(step, Launch):
                if faults := self._launch(step, schedule, seed):
                    return faults
                continue
            with plan_faults():
                self._workspace.steps[number]()
            self._note(step)
        return tuple(self._unwritten())

    def _forget(self) -> None:
        """Memory is as at the beginning of a call: what the call allocates holds nothing."""
        for number, buffer in enumerate(self._plan.buffers):
            written = not isinstance(buffer, ScratchBuffer)
            self._memory.declare(self._workspace.address(number, 0), buffer.nbytes, written=written)

    def _note(self, step: Fill | Copy) -> None:
        """What a copy leaves is as written as what it took: to copy memory that nobody will look at is no fault."""
        out = segment(self._workspace, step.out)
        if isinstance(step, Copy):
            self._memory.copied(out, segment(self._workspace, step.source))
        else:
            self._memory.mark_written(out)

    def _launch(self, step: Launch, schedule: Schedule, seed: int) -> tuple[Fault, ...]:
        kernel = self._kernels.get(step.kernel)
        planned = self._plan.kernels[step.kernel]
        if kernel is None:
            kernel = self._kernels[step.kernel] = self._compile(planned)
        with plan_faults():
            slots, names = self._workspace.slots(step), parameter_names(planned.ttir)
            segments = [
                segment(self._workspace, argument.view, name) if isinstance(argument, PointerArgument) else None
                for argument, name in zip(step.arguments, names, strict=True)
            ]
            return kernel.run(
                step.grid, slots, segments, self._memory, tables=self._tables, schedule=schedule, seed=seed
            )

    def _unwritten(self) -> list[Fault]:
        found = []
        for number, view in enumerate(self._plan.outputs):
            index = self._memory.unwritten(segment(self._workspace, view))
            if index is not None:
                found.append(
                    Fault(
                        FaultKind.UNWRITTEN,
                        kernel=HOST,
                        location=None,
                        expression=None,
                        program=(0, 0, 0),
                        tensor=f"output {number}",
                        index=index,
                        detail="returned without ever having been written",
                    )
                )
        return found

    def _reachable(self) -> tuple[Segment, ...]:
        """What a kernel may reach by the addresses in tables of pointers: each buffer from where they point."""
        tables = (buffer for buffer in self._plan.buffers if isinstance(buffer, ConstantBuffer))
        return tuple(
            Segment(self._workspace.address(r.buffer, r.offset), 1, (rest,), (1,))
            for r in dict.fromkeys(relocation for table in tables for relocation in table.relocations)
            if (rest := self._plan.buffers[r.buffer].nbytes - r.offset)
        )


def segment(workspace: Workspace, view: View, name: str = "") -> Segment:
    """A view of a workspace's memory, as the monitor takes it."""
    item = ITEM_SIZES[view.dtype]
    return Segment(workspace.address(view.buffer, view.offset * item), item, view.shape, view.strides, name)
