"""Many calls, or many replays, in one message: what a check of rare faults says to a candidate or a launcher.

Asking once per run would cost more than a small kernel takes. Invariant: what a run gave is bytes in a slot of its own,
which the judge compares; nothing here says that a run was right, and nothing proves that it took place: whoever answers
sees which runs have equal contents. The rules of `messages` hold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from kernelsmith.base import Frozen
from kernelsmith.plan import ITEM_SIZES
from kernelsmith.sandbox.wire.arguments import ALIGNMENT, Arguments, Region, pack
from kernelsmith.sandbox.wire.messages import Order, OutputTensor, OutputTensors, Overrun, Structure

MAX_RUNS = 4096
MAX_AT_ONCE = 64


class Slots(Frozen):
    """Where many runs leave what they gave: run i in slot i of the output arena. A slot holds the storages of the
    inputs as they are afterwards, laid out as `pack` does, then the outputs."""

    nbytes: int = Field(gt=0, multiple_of=ALIGNMENT)

    def storages(self, run: int, sizes: Sequence[int]) -> tuple[Region, ...]:
        """Where a run leaves the storages of inputs of these sizes."""
        return tuple(pack(list(sizes), run * self.nbytes))

    def outputs(self, run: int, sizes: Sequence[int]) -> int:
        """The first byte of a run's outputs, behind those storages."""
        return max((region.offset + region.nbytes for region in self.storages(run, sizes)), default=run * self.nbytes)

    def end(self, run: int) -> int:
        """The first byte behind a run's slot."""
        return (run + 1) * self.nbytes

    def holds(self, run: int, sizes: Sequence[int], output: OutputTensor) -> bool:
        """Whether an output, if it was written at all, lies where this run leaves its own."""
        if output.offset is None:
            return True
        return self.outputs(run, sizes) <= output.offset and output.offset + nbytes(output) <= self.end(run)


def nbytes(output: OutputTensor) -> int:
    """Of its elements, as they lie in an arena."""
    return math.prod(output.shape) * ITEM_SIZES[output.dtype]


class CallMany(Frozen):
    """Call the host function once for every entry of `contents`, unrecorded, as many calls at once as there are
    `arguments`: call i is made with `arguments[i % len(arguments)]`, into which the contents have been copied."""

    kind: Literal["call_many"] = "call_many"
    arguments: tuple[Arguments, ...] = Field(min_length=1, max_length=MAX_AT_ONCE)
    contents: tuple[tuple[Region, ...], ...] = Field(max_length=MAX_RUNS)
    """Per call, what its inputs' storages hold before it."""
    turns: bool = False
    """Whether calls at once launch together and their kernels take turns, where the device can; else each runs as it
    may."""
    poison: bool = False
    """Whether memory that torch allocates holds NaN at first, and not what it happens to hold."""
    slots: Slots

    def model_post_init(self, context: object) -> None:
        if len(self.contents) % len(self.arguments):
            raise ValueError(f"{len(self.contents)} calls, {len(self.arguments)} at once")


class Answered(Frozen):
    """What one of many calls returned; offsets are those in the output arena."""

    structure: Structure
    outputs: OutputTensors


class CalledMany(Frozen):
    kind: Literal["called_many"] = "called_many"
    answers: tuple[Answered, ...] = Field(max_length=MAX_RUNS)


class Once(Frozen):
    """One of many replays."""

    content: tuple[Region, ...]
    """As `Replay.inputs`; they stay as they are."""
    poison: int = Field(default=0xFF, ge=0, le=255)
    order: Order = Order.DEVICE
    threads: int = Field(default=0, ge=0, le=MAX_AT_ONCE)
    """Most threads that run a launch, where the device has them; 0: as many as usual."""


class ReplayMany(Frozen):
    """Run a plan again and again."""

    kind: Literal["replay_many"] = "replay_many"
    plan_id: int = Field(ge=0)
    runs: tuple[Once, ...] = Field(max_length=MAX_RUNS)
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Of the orders that are drawn."""
    slots: Slots


class ReplayedMany(Frozen):
    kind: Literal["replayed_many"] = "replayed_many"
    state_intact: bool
    """After each of the runs."""
    overrun: Overrun = ()
    """In any of them."""
