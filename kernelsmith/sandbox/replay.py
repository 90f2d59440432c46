"""Runs a launch plan on memory of our own: the outputs that count and the times that count come from here.

A workspace is one block of memory with guard bands between buffers; every step is bound to it once, so that a replay
is a loop over calls. Invariant: a plan's numbers were checked (`LaunchPlan`), its views are made by torch over exactly
their buffer, and nothing is left over from the last replay: scratch is poisoned, state and constants are restored. The
launcher owns one per plan; what differs by device stands behind `Device`.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from kernelsmith.errors import InfrastructureError
from kernelsmith.model import digest
from kernelsmith.plan import (
    ITEM_SIZES,
    Argument,
    Buffer,
    ConstantBuffer,
    Copy,
    Fill,
    InputBuffer,
    Kernel,
    Launch,
    LaunchPlan,
    PointerArgument,
    ScalarArgument,
    ScratchBuffer,
    StateBuffer,
    Step,
    View,
)
from kernelsmith.sandbox.messages import ALIGNMENT
from kernelsmith.sandbox.tensors import view_of

GUARD_BYTES = 1024
"""Before and after each buffer; a multiple of the alignment of regions."""

_GUARD_BYTE = 0xA5
_POINTERS = ("*", "!tt.ptr")


Bytes = npt.NDArray[np.uint8]
"""Memory as a flat array."""


class PlanError(Exception):
    """The plan asks for what cannot be: a candidate's doing, since honest recordings do not."""


@contextmanager
def plan_faults() -> Iterator[None]:
    """What torch refuses to do for a plan is the plan's fault."""
    try:
        yield
    except (RuntimeError, IndexError, TypeError, OverflowError) as error:
        raise PlanError(f"a step of the plan cannot be done: {error}") from error
    except InfrastructureError as error:  # the device has no room for what a kernel wants
        raise MemoryError(error.message) from error


class BoundKernel(Protocol):
    """A kernel compiled for the device; `arguments` are the types of its parameters, as `*f32`, `i32`."""

    @property
    def arguments(self) -> tuple[str, ...]: ...

    def bind(self, grid: tuple[int, int, int], slots: Sequence[int | float]) -> Callable[[], object]:
        """A call that launches it on these addresses and scalars."""


class Device(Protocol):
    """What a launcher needs that differs by device."""

    def compile(self, kernel: Kernel) -> BoundKernel:
        """Raises ValueError or KernelsmithError for a bad kernel, InfrastructureError for a broken machine."""

    def time(self, steps: Sequence[Callable[[], object]]) -> int:
        """Nanoseconds that the steps take on the device, whose threads or queues are awake when the clock starts."""


class Workspace:
    """Memory for one plan, and its steps bound to it."""

    def __init__(self, plan: LaunchPlan, kernels: Sequence[BoundKernel], state: Sequence[bytes]) -> None:
        """`state` holds the contents of the plan's state buffers by index. Raises PlanError and MemoryError."""
        self.plan = plan
        self._state = _checked_state(plan, state)
        self._starts, total = _layout(plan.buffers)
        self._memory = _reserve(total)
        # Through NumPy, which uses one thread: torch's own would still spin when the clock starts.
        self._bytes = [
            np.frombuffer(self._memory, np.uint8, buffer.nbytes, start)
            for start, buffer in zip(self._starts, plan.buffers, strict=True)
        ]
        self._storages = [torch.from_numpy(flat).untyped_storage() for flat in self._bytes]
        self._base = np.frombuffer(self._memory, np.uint8).ctypes.data
        self._initial = {i: self._initial_bytes(b) for i, b in enumerate(plan.buffers)}
        self._guard = bytes([_GUARD_BYTE]) * GUARD_BYTES
        self._write_guards()
        with plan_faults():
            self.outputs = [view_of(self._storages[view.buffer], view) for view in plan.outputs]
            self.steps: list[Callable[[], object]] = [self._bind(step, kernels) for step in plan.steps]

    def reset(self, inputs: Sequence[Bytes], poison: int) -> None:
        """Before a replay: `inputs` are new bytes of the input buffers, by index. Raises PlanError for other sizes."""
        for number, buffer in enumerate(self.plan.buffers):
            if isinstance(buffer, InputBuffer):
                if buffer.index >= len(inputs) or inputs[buffer.index].nbytes != buffer.nbytes:
                    raise PlanError(f"input {buffer.index} of {buffer.nbytes} bytes was recorded, another is given")
                self._bytes[number][:] = inputs[buffer.index]
            elif isinstance(buffer, ScratchBuffer):
                self._bytes[number].fill(poison)
            elif (initial := self._initial[number]) and self._contents(number) != initial:
                self._contents(number)[:] = initial

    def run(self) -> None:
        """All steps once. Raises PlanError for a step that torch refuses."""
        with plan_faults():
            for step in self.steps:
                step()

    def time(self, device: Device) -> int:
        """Nanoseconds of all steps once; raises as `run` does."""
        with plan_faults():
            return device.time(self.steps)

    def write_back(self, inputs: Sequence[Bytes]) -> None:
        """After a replay: what it did to its inputs, into the given bytes."""
        for number, buffer in enumerate(self.plan.buffers):
            if isinstance(buffer, InputBuffer):
                inputs[buffer.index][:] = self._bytes[number]

    def state_intact(self) -> bool:
        """Whether every state buffer holds what it held before the call."""
        return all(
            self._contents(i) == self._initial[i] for i, b in enumerate(self.plan.buffers) if isinstance(b, StateBuffer)
        )

    def overrun(self) -> tuple[int, ...]:
        """Buffers around which bytes were written since the last look; the bands are made whole again."""
        memory = memoryview(self._memory)
        hurt = tuple(
            number
            for number, (start, buffer) in enumerate(zip(self._starts, self.plan.buffers, strict=True))
            if memory[start - GUARD_BYTES : start] != self._guard
            or memory[start + buffer.nbytes : start + buffer.nbytes + GUARD_BYTES] != self._guard
        )
        if hurt:
            self._write_guards()
        return hurt

    def _contents(self, number: int) -> memoryview:
        start = self._starts[number]
        return memoryview(self._memory)[start : start + self.plan.buffers[number].nbytes]

    def _write_guards(self) -> None:
        for start, buffer in zip(self._starts, self.plan.buffers, strict=True):
            self._memory[start - GUARD_BYTES : start] = self._guard
            self._memory[start + buffer.nbytes : start + buffer.nbytes + GUARD_BYTES] = self._guard

    def _initial_bytes(self, buffer: Buffer) -> bytes:
        if isinstance(buffer, StateBuffer):
            return self._state[buffer.index]
        if not isinstance(buffer, ConstantBuffer):
            return b""
        data = bytearray.fromhex(buffer.data)
        for r in buffer.relocations:
            struct.pack_into("=Q", data, r.at, self._base + self._starts[r.buffer] + r.offset)
        return bytes(data)

    # ---------------------------------------------------------------- steps

    def _bind(self, step: Step, kernels: Sequence[BoundKernel]) -> Callable[[], object]:
        if isinstance(step, Launch):
            return self._bind_launch(step, kernels[step.kernel], self.plan.kernels[step.kernel].name)
        out = view_of(self._storages[step.out.buffer], step.out)
        if isinstance(step, Copy):
            return partial(out.copy_, view_of(self._storages[step.source.buffer], step.source))
        return out.zero_ if _is_zero(step) else partial(out.fill_, _number(step.value))

    def _bind_launch(self, launch: Launch, kernel: BoundKernel, name: str) -> Callable[[], object]:
        if len(kernel.arguments) != len(launch.arguments):
            raise PlanError(f"{name} takes {len(kernel.arguments)} arguments and is given {len(launch.arguments)}")
        pairs = zip(kernel.arguments, launch.arguments, strict=True)
        return kernel.bind(launch.grid, [self._slot(kind, argument, name) for kind, argument in pairs])

    def _slot(self, kind: str, argument: Argument, name: str) -> int | float:
        if isinstance(argument, ScalarArgument):
            value = _number(argument.value)
            if kind.startswith(_POINTERS) or (isinstance(value, float) and kind.startswith("i")):
                raise PlanError(f"{name}: the number {value!r} is given for a parameter of type {kind}")
            return value
        if not kind.startswith((*_POINTERS, "i64")):
            raise PlanError(f"{name}: an address is given for a parameter of type {kind}")
        return self._address(argument.view) if isinstance(argument, PointerArgument) else 0

    def _address(self, view: View) -> int:
        offset = view.offset * ITEM_SIZES[view.dtype]
        if offset > self.plan.buffers[view.buffer].nbytes:
            raise PlanError(f"an empty view begins {offset} bytes into a smaller buffer")
        return self._base + self._starts[view.buffer] + offset


def _layout(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """Where each buffer begins, with a guard band on either side, and the size of it all."""
    starts, at = [], 0
    for buffer in buffers:
        starts.append(at + GUARD_BYTES)
        at = starts[-1] + -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT + GUARD_BYTES
    return starts, max(at, mmap.PAGESIZE)


def _reserve(nbytes: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError) as error:
        raise MemoryError(f"the plan needs {nbytes} bytes: {error}") from error


def _checked_state(plan: LaunchPlan, state: Sequence[bytes]) -> Sequence[bytes]:
    for buffer in plan.buffers:
        if isinstance(buffer, StateBuffer):
            if buffer.index >= len(state) or len(state[buffer.index]) != buffer.nbytes:
                raise PlanError(f"state {buffer.index} of {buffer.nbytes} bytes did not come along")
            if digest(state[buffer.index]) != buffer.content:
                raise PlanError(f"state {buffer.index} is not what the plan says it is")
    return state


def _number(value: bool | int | str) -> bool | int | float:
    return float(value) if isinstance(value, str) else value


def _is_zero(step: Fill) -> bool:
    return step.value == 0 or step.value == "0.0"
