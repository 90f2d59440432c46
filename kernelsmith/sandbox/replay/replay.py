"""Runs a launch plan on memory of our own: the outputs that count and the times that count come from here.

A workspace is one block of memory with guard bands between buffers; every step is bound to it once, so that a replay
is a loop over calls. Invariant: a plan's numbers were checked (`LaunchPlan`), its views are made by torch over exactly
their buffer, and nothing is left over from the last replay: scratch is poisoned, state and constants are restored. The
launcher owns one per plan; what differs by device stands behind `Device`.
"""

from __future__ import annotations

import math
import random
import secrets
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Protocol

import torch

from kernelsmith.base import digest
from kernelsmith.faults import Fault, Schedule
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
    StateBuffer,
    Step,
    View,
)
from kernelsmith.sandbox.wire.arguments import ALIGNMENT, Region
from kernelsmith.sandbox.wire.messages import Order
from kernelsmith.sandbox.wire.tensors import storage_bytes, view_of
from kernelsmith.triton_cpu.run.launch import Binary
from kernelsmith.triton_cpu.watch.monitor import Memory, Segment

GUARD_BYTES = 1024
"""Before and after each buffer; a multiple of the alignment of regions."""

_POINTERS = ("*", "!tt.ptr")
_ATOMIC = "tt.atomic"
APART_BYTES = 16 << 20
"""Programs times bytes of memory up to which `Order.APART` is done: milliseconds."""


class PlanError(Exception):
    """The plan asks for what cannot be: a candidate's doing, since honest recordings do not."""


@contextmanager
def plan_faults() -> Iterator[None]:
    """What torch refuses to do for a plan is the plan's fault, and so is a number that fits into no argument."""
    try:
        yield
    except (RuntimeError, IndexError, TypeError, ValueError, OverflowError, struct.error) as error:
        raise PlanError(f"a step of the plan cannot be done: {error}") from error


class BoundKernel(Protocol):
    """A kernel compiled for the device; `arguments` are the types of its parameters, as `*f32`, `i32`."""

    @property
    def arguments(self) -> tuple[str, ...]: ...

    def bind(self, grid: tuple[int, int, int], slots: Sequence[int | float], threads: int = 0) -> Callable[[], object]:
        """A call that launches it on these addresses and scalars, on at most so many threads where that is not 0 and
        the device has threads."""

    def bind_each(self, grid: tuple[int, int, int], slots: Sequence[int | float]) -> Callable[[int], object] | None:
        """A call that runs one program instance alone, by its number; None where the device cannot."""


class CheckedKernel(Protocol):
    """A build that finds faults as it runs, on memory that this process can read."""

    def run(
        self,
        grid: tuple[int, int, int],
        slots: Sequence[int | float],
        segments: Sequence[Segment | None],
        memory: Memory,
        *,
        tables: Sequence[Segment],
        schedule: Schedule,
        seed: int,
    ) -> tuple[Fault, ...]:
        """Launch it; `segments` are what the pointers among the slots may reach, `tables` what others may."""


class Device(Protocol):
    """What a launcher needs that differs by device."""

    def give(self, kernel: Kernel, binary: Binary, *, checked: bool) -> None:
        """A build that somebody else has made of the kernel; the two below take it from here on."""

    def compile(self, kernel: Kernel) -> BoundKernel:
        """Raises ValueError or KernelsmithError for a bad kernel, InfrastructureError for a broken machine."""

    def compile_checked(self, kernel: Kernel) -> CheckedKernel:
        """A build that finds faults as it runs; raises as `compile` does."""

    def reserve(self, nbytes: int) -> torch.Tensor:
        """Memory that nothing else uses, as flat uint8 aligned to `ALIGNMENT`; raises MemoryError."""

    def place(self, host: torch.Tensor) -> torch.Tensor:
        """Flat bytes of the host where kernels can use them: a copy, or on the CPU themselves; raises MemoryError."""

    def finish(self) -> None:
        """Return once all that was launched is done; raises DeviceFaultError where it could not be."""

    def time(self, steps: Sequence[Callable[[], object]]) -> int:
        """Nanoseconds that the steps take on the device, whose threads or queues are awake when the clock starts;
        raises what they raise, and as `finish` does."""

    def timed(self) -> AbstractContextManager[object]:
        """Around work that somebody else's clock times: threads stay awake between launches."""


class Workspace:
    """Memory for one plan, and its steps bound to it."""

    def __init__(
        self,
        plan: LaunchPlan,
        kernels: Sequence[BoundKernel],
        state: Sequence[torch.Tensor],
        device: Device,
        memory: torch.Tensor | None = None,
    ) -> None:
        """`state` holds the contents of the plan's state buffers by index; `memory` is flat uint8 to use instead of
        the device's own. Raises PlanError and MemoryError."""
        _check_state(plan, state)
        self.plan = plan
        self._device = device
        self._kernels = kernels
        self._state = state
        self._starts, total = layout(plan.buffers)
        self._memory = device.reserve(total) if memory is None else memory
        if self._memory.numel() != total:
            raise PlanError(f"the plan takes {total} bytes and is given {self._memory.numel()}")
        pairs = list(zip(self._starts, plan.buffers, strict=True))
        self._bytes = [self._memory[start : start + buffer.nbytes] for start, buffer in pairs]
        ends = [0, *(start + buffer.nbytes for start, buffer in pairs)]
        self._bands = [self._memory[end:start] for end, start in zip(ends, [*self._starts, total], strict=True)]
        """Every byte that belongs to no buffer: band i lies before buffer i, the last one behind them all."""
        self._band_byte = 0
        self._initial = self._initial_contents(state)
        self._on_threads: dict[int, list[Callable[[], object]]] = {}
        self._write_bands()
        with plan_faults():
            self.outputs = [self._tensor(view) for view in plan.outputs]
            self.steps: list[Callable[[], object]] = [self._bind(step) for step in plan.steps]

    def twin(self, memory: torch.Tensor) -> Workspace:
        """The same plan over other memory. Raises as the constructor does."""
        return Workspace(self.plan, self._kernels, self._state, self._device, memory)

    def reset(
        self, inputs: Sequence[torch.Tensor] | None, poison: int, regions: Sequence[Region] | None = None
    ) -> None:
        """Before a replay: `inputs` are new bytes of the input buffers, by index, all of them or what `regions` hold;
        where there are none yet, they hold poison too. Raises PlanError for other sizes.

        Nothing in the workspace outlives it, so that a kernel cannot keep an answer, or know a replay by its guards.
        """
        self._write_bands()
        for number, buffer in enumerate(self.plan.buffers):
            if isinstance(buffer, InputBuffer) and inputs is not None:
                if buffer.index >= len(inputs) or inputs[buffer.index].numel() != buffer.nbytes:
                    raise PlanError(f"input {buffer.index} of {buffer.nbytes} bytes was recorded, another is given")
                _copy(self._bytes[number], inputs[buffer.index], regions[buffer.index] if regions else None)
            elif number in self._initial:
                self._bytes[number].copy_(self._initial[number])
            else:
                self._bytes[number].fill_(poison)

    def run(self, order: Order = Order.DEVICE, *, threads: int = 0, draw: random.Random | None = None) -> None:
        """All steps once, to their end, on at most so many threads (0: as usual); `draw` is for an order that is drawn.
        Raises PlanError for a step that torch refuses, DeviceFaultError for one that the device does."""
        with plan_faults(), self._noticed():
            for number, step in enumerate(self._bound_to(threads)):
                planned = self.plan.steps[number]
                if order is Order.DEVICE or not isinstance(planned, Launch) or not self._ordered(planned, order, draw):
                    step()
        self._device.finish()

    def time(self) -> int:
        """Nanoseconds of all steps once; raises as `run` does."""
        with plan_faults(), self._noticed():
            return self._device.time(self.steps)

    @contextmanager
    def _noticed(self) -> Iterator[None]:
        """A device tells a fault to whoever calls it next, such as the launch after it: then it is no plan's fault."""
        try:
            yield
        except RuntimeError:
            self._device.finish()
            raise

    def write_back(self, inputs: Sequence[torch.Tensor], regions: Sequence[Region] | None = None) -> None:
        """After a replay: what it did to its inputs, or what of them `regions` hold, into the given bytes."""
        for number, buffer in enumerate(self.plan.buffers):
            if isinstance(buffer, InputBuffer):
                _copy(inputs[buffer.index], self._bytes[number], regions[buffer.index] if regions else None)

    def state_intact(self) -> bool:
        """Whether every state buffer holds what it held before the call, but for those on which nothing depends."""
        kept = [n for n, buffer in enumerate(self.plan.buffers) if isinstance(buffer, StateBuffer) and buffer.content]
        return all(torch.equal(self._bytes[number], self._initial[number]) for number in kept)

    def overrun(self) -> tuple[int, ...]:
        """Buffers around which bytes were written since the last reset."""
        hurt = [number for number, band in enumerate(self._bands) if bool((band != self._band_byte).any())]
        if hurt:
            self._write_bands()
        # what stands between two buffers is most often hurt by a store past the end of the first
        return tuple(sorted({max(0, number - 1) for number in hurt}))

    def address(self, buffer: int, offset: int) -> int:
        """Of a byte of a buffer."""
        return self._memory.data_ptr() + self._starts[buffer] + offset

    def slots(self, step: Launch) -> list[int | float]:
        """Addresses and scalars that a launch gives to its kernel. Raises PlanError where they do not fit."""
        kinds, name = self._kernels[step.kernel].arguments, self.plan.kernels[step.kernel].name
        if len(kinds) != len(step.arguments):
            raise PlanError(f"{name} takes {len(kinds)} arguments and is given {len(step.arguments)}")
        return [self._slot(kind, argument, name) for kind, argument in zip(kinds, step.arguments, strict=True)]

    def _write_bands(self) -> None:
        self._band_byte = secrets.randbelow(256)
        for band in self._bands:
            band.fill_(self._band_byte)

    def _initial_contents(self, state: Sequence[torch.Tensor]) -> dict[int, torch.Tensor]:
        """What state and constant buffers hold before every replay, by number of the buffer."""
        contents = {}
        for number, buffer in enumerate(self.plan.buffers):
            if isinstance(buffer, StateBuffer):
                if buffer.content is not None:
                    contents[number] = state[buffer.index].to(self._memory.device, copy=True)
            elif isinstance(buffer, ConstantBuffer):
                data = bytearray.fromhex(buffer.data)
                for r in buffer.relocations:
                    struct.pack_into("=Q", data, r.at, self.address(r.buffer, r.offset))
                contents[number] = torch.tensor(list(data), dtype=torch.uint8, device=self._memory.device)
        return contents

    def _tensor(self, view: View) -> torch.Tensor:
        """The view over our memory; that it stays inside of its buffer was checked when the plan was read."""
        inside = self._starts[view.buffer] // ITEM_SIZES[view.dtype] + view.offset
        return view_of(self._memory.untyped_storage(), view.model_copy(update={"offset": inside}))

    # ---------------------------------------------------------------- steps

    def _bound_to(self, threads: int) -> list[Callable[[], object]]:
        if not threads:
            return self.steps
        if threads not in self._on_threads:
            self._on_threads[threads] = [self._bind(step, threads) for step in self.plan.steps]
        return self._on_threads[threads]

    def _bind(self, step: Step, threads: int = 0) -> Callable[[], object]:
        if isinstance(step, Launch):
            return self._kernels[step.kernel].bind(step.grid, self.slots(step), threads)
        out = self._tensor(step.out)
        if isinstance(step, Copy):
            return partial(out.copy_, self._tensor(step.source))
        return out.zero_ if _is_zero(step) else partial(out.fill_, _number(step.value))

    def _ordered(self, step: Launch, order: Order, draw: random.Random | None) -> bool:
        """Run a launch's programs in this order; False where the device cannot."""
        one = self._kernels[step.kernel].bind_each(step.grid, self.slots(step))
        if one is None:
            return False
        programs = math.prod(step.grid)
        atomics = _ATOMIC in self.plan.kernels[step.kernel].ttir
        if order is Order.APART and not atomics and programs * self._memory.numel() <= APART_BYTES:
            self._apart(one, programs)
        else:
            numbers = list(reversed(range(programs)))
            if order is Order.SHUFFLED:
                (draw or random.Random()).shuffle(numbers)
            for number in numbers:
                one(number)
        return True

    def _apart(self, one: Callable[[int], object], programs: int) -> None:
        before = self._memory.clone()
        together = before.clone()
        for number in range(programs):
            self._memory.copy_(before)
            one(number)
            torch.where(self._memory != before, self._memory, together, out=together)
        self._memory.copy_(together)

    def _slot(self, kind: str, argument: Argument, name: str) -> int | float:
        if isinstance(argument, ScalarArgument):
            value = _number(argument.value)
            if kind.startswith(_POINTERS) or (isinstance(value, float) and kind.startswith("i")):
                raise PlanError(f"{name}: the number {value!r} is given for a parameter of type {kind}")
            return value
        if not kind.startswith((*_POINTERS, "i64")):
            raise PlanError(f"{name}: an address is given for a parameter of type {kind}")
        if not isinstance(argument, PointerArgument):
            return 0
        offset = argument.view.offset * ITEM_SIZES[argument.view.dtype]
        if offset > self.plan.buffers[argument.view.buffer].nbytes:
            raise PlanError(f"{name}: an empty view begins {offset} bytes into a smaller buffer")
        return self.address(argument.view.buffer, offset)


def layout(buffers: Sequence[Buffer]) -> tuple[list[int], int]:
    """Where each buffer begins, with a guard band on either side, and the size of it all."""
    starts, at = [], 0
    for buffer in buffers:
        starts.append(at + GUARD_BYTES)
        at = starts[-1] + -(-buffer.nbytes // ALIGNMENT) * ALIGNMENT + GUARD_BYTES
    return starts, at


def _copy(out: torch.Tensor, source: torch.Tensor, region: Region | None) -> None:
    """The bytes that a region holds, or all."""
    if region is None or not region.parts:
        out.copy_(source)
        return
    for part in region.parts:
        out[part.start : part.start + part.nbytes].copy_(source[part.start : part.start + part.nbytes])


def _check_state(plan: LaunchPlan, state: Sequence[torch.Tensor]) -> None:
    for buffer in plan.buffers:
        if isinstance(buffer, StateBuffer):
            if buffer.index >= len(state) or state[buffer.index].numel() != buffer.nbytes:
                raise PlanError(f"state {buffer.index} of {buffer.nbytes} bytes did not come along")
            found = digest(storage_bytes(state[buffer.index].untyped_storage()))
            if buffer.content is not None and found != buffer.content:
                raise PlanError(f"state {buffer.index} is not what the plan says it is")


def _number(value: bool | int | str) -> bool | int | float:
    return float(value) if isinstance(value, str) else value


def _is_zero(step: Fill) -> bool:
    return step.value == 0 or step.value == "0.0"
