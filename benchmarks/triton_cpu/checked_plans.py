"""From a host function to what checked builds of its kernels find, in this process: recorded without being run, then
replayed as the launcher does it.

The kernels of a faulty case never run as plain builds here, so they can do no harm.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.triton_cpu.checked_cases import Entry
from kernelsmith.devices.cpu import CpuDevice
from kernelsmith.faults import Fault, Schedule
from kernelsmith.plan import LaunchPlan
from kernelsmith.sandbox.record.aten_table import AtenRecorder
from kernelsmith.sandbox.record.launch_hook import LaunchHook
from kernelsmith.sandbox.record.recording import Recording
from kernelsmith.sandbox.replay.examine import Examination
from kernelsmith.sandbox.replay.replay import BoundKernel, Workspace

SEED = 1


class Recorder:
    """Records calls in this process; make one before any kernel of theirs is launched."""

    def __init__(self) -> None:
        self._hook = LaunchHook()
        self._hook.install()

    def record(self, host: Any, arguments: Sequence[Any]) -> tuple[LaunchPlan, list[torch.Tensor], list[torch.Tensor]]:
        """The plan of a call, and the bytes of its inputs and of its state buffers before it; nothing is launched.

        Raises ValueError for a call that is no plan.
        """
        storages = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in arguments if torch.is_tensor(t)}
        inputs = [torch.empty(0, dtype=torch.uint8).set_(storage) for storage in storages.values()]
        before = [given.clone() for given in inputs]
        recording = Recording(list(storages.values()), inspect.getsourcefile(host) or "")
        self._hook.run, self._hook.observe = False, recording.launch
        try:
            with torch.no_grad(), AtenRecorder(recording):
                result = host(*arguments)
        finally:
            self._hook.run, self._hook.observe = True, None
        if recording.refusals:
            raise ValueError("; ".join(f"{refusal.does} {refusal.object}" for refusal in recording.refusals))
        outputs = [] if result is None else [result] if torch.is_tensor(result) else list(result)
        state = [torch.frombuffer(bytearray(content), dtype=torch.uint8) for content in recording.state]
        return recording.plan(outputs), before, state


@dataclass(frozen=True)
class _Parameters:
    """What a workspace has to know of a kernel that is never launched as a plain build."""

    arguments: tuple[str, ...]

    def bind(self, grid: tuple[int, int, int], slots: Sequence[int | float], threads: int = 0) -> Callable[[], object]:
        return lambda: None

    def bind_each(self, grid: tuple[int, int, int], slots: Sequence[int | float]) -> None:
        return None


def prepared(
    host: Any, arguments: Sequence[Any], recorder: Recorder, *, plain: bool = False
) -> tuple[Workspace, Examination, list[torch.Tensor]]:
    """A call's plan in memory of its own, to be examined and, if asked for, to be run; and the bytes of its inputs."""
    device = CpuDevice()
    plan, inputs, state = recorder.record(host, arguments)
    kernels: list[BoundKernel] = (
        [device.compile(kernel) for kernel in plan.kernels]
        if plain
        else [_Parameters(device.compile_checked(kernel).kernel.arguments) for kernel in plan.kernels]
    )
    workspace = Workspace(plan, kernels, state, device)
    return workspace, Examination(workspace, device.compile_checked), inputs


def examine(entry: Entry, recorder: Recorder) -> list[tuple[Schedule, Fault]]:
    """What is found in the calls of an entry under each of its orders. Raises ValueError where one is no plan."""
    found: list[tuple[Schedule, Fault]] = []
    for arguments in entry.arguments():
        _, examination, inputs = prepared(entry.host, arguments, recorder)
        for schedule in entry.schedules:
            found += [(schedule, fault) for fault in examination.run(inputs, schedule=schedule, seed=SEED)]
    return found
