"""The launcher role: trusted code that compiles a plan's kernels, replays the plan and times it.

It holds no candidate Python, but kernels are native code of unknown intent, so it is confined as well and nothing it
says is a verdict. Invariant: every request gets one reply; a plan's fault is a `Failed`, a fault of this machine is
`Broken`. The zygote calls `main`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from kernelsmith.devices import DeviceFaultError, open_device
from kernelsmith.errors import InfrastructureError, KernelsmithError
from kernelsmith.faults import CheckedLaunchError
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Kernel, LaunchPlan
from kernelsmith.sandbox.replay.examine import Examination
from kernelsmith.sandbox.replay.many import replay_many
from kernelsmith.sandbox.replay.replay import BoundKernel, CheckedKernel, Device, PlanError, Workspace
from kernelsmith.sandbox.wire.builds import Built
from kernelsmith.sandbox.wire.exchange import LauncherReply
from kernelsmith.sandbox.wire.many import ReplayMany
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.messages import (
    MAX_FAULTS,
    Arrange,
    Broken,
    Done,
    Examine,
    Examined,
    Failed,
    Forget,
    Keep,
    Kept,
    KernelBuild,
    Prepare,
    Prepared,
    Replay,
    Replayed,
    Run,
    Sample,
    Sampled,
    state_regions,
)
from kernelsmith.sandbox.wire.protocol import Channel, PeerGoneError
from kernelsmith.sandbox.wire.reading import launcher_request
from kernelsmith.sandbox.wire.tensors import Arenas, region_bytes, torch_threads, use_threads, write_outputs

_MESSAGE_CHARS = 4000


def main(channel: Channel, scratch: Path) -> None:
    """Answer requests until the judge hangs up."""
    use_threads()
    launcher = Launcher(open_device())
    while True:
        try:
            frame = channel.receive()
            channel.send(launcher.answer(frame.payload, frame.fds).model_dump_json().encode())
        except PeerGoneError:
            return


class _UncompilableError(Exception):
    """One of the plan's kernels cannot be compiled."""


@contextmanager
def _compiling(kernel: Kernel) -> Iterator[None]:
    try:
        yield
    except InfrastructureError:
        raise
    except (KernelsmithError, ValueError) as error:
        raise _UncompilableError(f"kernel {kernel.name}: {error}") from error


class Launcher:
    """Plans that were prepared, by id."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._arenas = Arenas()
        self._prepared: dict[int, Workspace] = {}
        self._examinations: dict[int, Examination] = {}
        self._arranged: list[Workspace] = []
        self._next = 0
        self._flush = torch.empty(0, dtype=torch.uint8)

    def answer(self, payload: bytes, fds: Sequence[int]) -> LauncherReply:
        """Do what was asked. Raises ValueError for a request that is none, or that names a plan that is not there."""
        arenas = self._arenas.map(fds)
        request = launcher_request(payload)
        try:
            match request:
                case Prepare():
                    return self._prepare(request, arenas)
                case Forget():
                    gone = self._prepared.pop(request.plan_id, None)
                    self._arranged = [copy for copy in self._arranged if gone is None or copy.plan is not gone.plan]
                    self._examinations.pop(request.plan_id, None)
                    return Done()
                case Replay():
                    return self._replay(request, arenas)
                case Sample():
                    return self._sample(request, arenas[0])
                case Keep():
                    return self._keep(request, arenas)
                case Arrange():
                    return self._arrange(request, arenas[0])
                case Run():
                    return self._run()
                case Examine():
                    return self._examine(request, arenas)
                case ReplayMany():
                    with torch_threads(1):
                        return replay_many(self._workspace(request.plan_id), request, *arenas)
        except _UncompilableError as error:
            return Failed(outcome=Outcome.COMPILE_ERROR, message=str(error)[:_MESSAGE_CHARS])
        except PlanError as error:
            return Failed(outcome=Outcome.NOT_IN_PLAN, message=str(error)[:_MESSAGE_CHARS])
        except MemoryError as error:
            return Failed(outcome=Outcome.MEMORY, message=f"not enough memory for the plan: {error}"[:_MESSAGE_CHARS])
        except DeviceFaultError as error:
            return Failed(outcome=Outcome.RUNTIME_ERROR, message=str(error)[:_MESSAGE_CHARS])
        except CheckedLaunchError as error:  # only assertions are watched in plain builds
            return Failed(outcome=Outcome.RUNTIME_ERROR, message=error.message[:_MESSAGE_CHARS])
        except KernelsmithError as error:
            return Broken(message=error.message[:_MESSAGE_CHARS], hint=error.hint[:_MESSAGE_CHARS])

    def _prepare(self, request: Prepare, arenas: Sequence[Arena]) -> Prepared:
        plan = request.plan
        regions = state_regions(plan)
        state = [region_bytes(arenas[0], region).clone() for region in regions]
        kernels: list[BoundKernel] = []
        builds: list[KernelBuild] = []
        self._take(plan, request.built, checked=False)
        for kernel in plan.kernels:
            begin = time.perf_counter()
            kernels.append(self._compile(kernel))
            builds.append(KernelBuild(name=kernel.name, seconds=time.perf_counter() - begin))
        plan_id = self._next
        self._prepared[plan_id] = Workspace(plan, kernels, state, self._device)
        self._next += 1
        return Prepared(plan_id=plan_id, kernels=tuple(builds))

    def _take(self, plan: LaunchPlan, built: Sequence[Built | None], *, checked: bool) -> None:
        """Builds that the judge had made elsewhere, one for each kernel where there are any."""
        for kernel, one in zip(plan.kernels, built or [None] * len(plan.kernels), strict=True):
            if one is not None:
                with _compiling(kernel):
                    self._device.give(kernel, one.binary(), checked=checked)

    def _compile(self, kernel: Kernel) -> BoundKernel:
        with _compiling(kernel):
            return self._device.compile(kernel)

    def _compile_checked(self, kernel: Kernel) -> CheckedKernel:
        with _compiling(kernel):
            return self._device.compile_checked(kernel)

    def _replay(self, request: Replay, arenas: Sequence[Arena]) -> Replayed:
        workspace = self._workspace(request.plan_id)
        inputs = [region_bytes(arenas[0], region) for region in request.inputs]
        with torch_threads(1):  # nothing is timed, and others are at work
            workspace.reset(inputs, request.poison, request.inputs)
            workspace.run(request.order)
            workspace.write_back(inputs, request.inputs)
            outputs, _ = write_outputs(workspace.outputs, arenas[1])
        return Replayed(outputs=outputs, state_intact=workspace.state_intact(), overrun=workspace.overrun())

    def _sample(self, request: Sample, arena: Arena) -> Sampled:
        workspace = self._workspace(request.plan_id)
        if self._flush.numel() != request.flush_bytes:
            self._flush = self._device.reserve(request.flush_bytes)
        inputs = [region_bytes(arena, region) for region in request.inputs]
        with torch_threads(1):
            workspace.reset(inputs, request.poison)
            self._flush.fill_(request.poison)
        nanoseconds = workspace.time()
        return Sampled(nanoseconds=nanoseconds, state_intact=workspace.state_intact(), overrun=workspace.overrun())

    def _keep(self, request: Keep, arenas: Sequence[Arena]) -> Kept:
        workspace = self._workspace(request.plan_id)
        workspace.write_back([region_bytes(arenas[0], region) for region in request.inputs])
        outputs, _ = write_outputs(workspace.outputs, arenas[1])
        return Kept(outputs=outputs)

    def _arrange(self, request: Arrange, arena: Arena) -> Done:
        workspace = self._workspace(request.plan_id)
        self._arranged = [workspace.twin(region_bytes(arena, region)) for region in request.copies]
        with torch_threads(1):
            for copy in self._arranged:
                copy.reset(None, request.poison)
        return Done()

    def _run(self) -> Done:
        with self._device.timed():
            for copy in self._arranged:
                copy.run()  # to its end: the judge's clock must not stop while the device is at work
        return Done()

    def _examine(self, request: Examine, arenas: Sequence[Arena]) -> Examined:
        workspace = self._workspace(request.plan_id)
        if request.plan_id not in self._examinations:
            self._examinations[request.plan_id] = Examination(workspace, self._compile_checked)
        inputs = [region_bytes(arenas[0], region) for region in request.inputs]
        self._take(workspace.plan, request.built, checked=True)
        with torch_threads(1):
            faults = self._examinations[request.plan_id].run(inputs, schedule=request.schedule, seed=request.seed)
        return Examined(faults=faults[:MAX_FAULTS])

    def _workspace(self, plan_id: int) -> Workspace:
        if plan_id not in self._prepared:
            raise ValueError(f"no plan {plan_id} is prepared")
        return self._prepared[plan_id]
