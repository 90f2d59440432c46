"""Carrying a call's tensors to a confined child and back: arenas, regions and copies.

Invariant: what comes back is copied out of shared memory before it is looked at, so a child that still lives cannot
change what is being compared.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from kernelsmith.evaluate.truth.inputs import CallInputs, ListValue, ScalarValue, TensorValue
from kernelsmith.plan import ITEM_SIZES
from kernelsmith.sandbox.wire import arguments
from kernelsmith.sandbox.wire.arguments import ALIGNMENT, Arguments, Part, Region, pack
from kernelsmith.sandbox.wire.memory import Arena, ArenaPool
from kernelsmith.sandbox.wire.messages import OutputTensor

Bytes = npt.NDArray[np.uint8]

DENSE_SLACK = 4
"""A returned tensor whose strides span more than this many times its elements is handed on without its strides."""


class Desk:
    """The arenas that one child works on. They go back to the pool once the child is dead, never before: until then
    it can write into them. Where nobody knows whether it is, they are dropped."""

    def __init__(self, pool: ArenaPool) -> None:
        self._pool = pool
        self._inputs: Arena | None = None
        self._outputs: Arena | None = None
        self._mirror: Arena | None = None
        self._outgrown: list[Arena] = []

    def inputs(self, nbytes: int) -> Arena:
        """At least `nbytes` for the storages of a call."""
        self._inputs = self._at_least(self._inputs, nbytes)
        return self._inputs

    def outputs(self, nbytes: int) -> Arena:
        """At least `nbytes` for what a call returns."""
        self._outputs = self._at_least(self._outputs, nbytes)
        return self._outputs

    def mirror(self, nbytes: int) -> Arena:
        """At least `nbytes` for a plan's whole memory, where the judge sees it."""
        self._mirror = self._at_least(self._mirror, nbytes)
        return self._mirror

    def clear(self) -> None:
        """Give everything back; only when the child is dead."""
        for arena in self._emptied():
            self._pool.give_back(arena)

    def drop(self) -> None:
        """Free everything; the child may live on."""
        for arena in self._emptied():
            arena.close()

    def _emptied(self) -> list[Arena]:
        used = (*self._outgrown, self._inputs, self._outputs, self._mirror)
        arenas = [arena for arena in used if arena is not None]
        self._inputs = self._outputs = self._mirror = None
        self._outgrown = []
        return arenas

    def _at_least(self, arena: Arena | None, nbytes: int) -> Arena:
        if arena is not None and arena.nbytes >= nbytes:
            return arena
        if arena is not None:
            self._outgrown.append(arena)
        return self._pool.take(nbytes)


@dataclass(frozen=True)
class Packed:
    """Where one call's storages lie in an input arena, and the arguments that refer to them."""

    regions: tuple[Region, ...]
    arguments: Arguments

    @property
    def end(self) -> int:
        return self.regions[-1].offset + self.regions[-1].nbytes if self.regions else ALIGNMENT


def packed(inputs: CallInputs, start: int = 0) -> Packed:
    """Lay out the storages one after the other from byte `start`."""
    buffers = inputs.buffers()
    sizes = [b.storage.numel() if b.spread is None else b.spread.nbytes for b in buffers]
    regions = tuple(map(_parted, pack(sizes, start), buffers))
    positional = tuple(_value(v) for v in inputs.values)
    return Packed(regions, Arguments(regions=regions, positional=positional))


def _parted(region: Region, buffer: TensorValue) -> Region:
    if buffer.spread is None:
        return region
    parts = tuple(Part(start=start, nbytes=nbytes) for start, nbytes in buffer.spread.pieces)
    return region.model_copy(update={"parts": parts})


def _value(value: TensorValue | ListValue | ScalarValue) -> arguments.Value:
    if isinstance(value, TensorValue):
        return arguments.TensorValue(view=value.called)
    if isinstance(value, ListValue):
        return arguments.ListValue(items=tuple(arguments.TensorValue(view=t.called) for t in value.items))
    return scalar(value.value)


def scalar(value: object) -> arguments.Value:
    """A Python argument that is not a tensor; raises TypeError for what cannot cross."""
    if value is None:
        return arguments.NoneValue()
    if isinstance(value, bool):
        return arguments.BoolValue(value=value)
    if isinstance(value, int):
        return arguments.IntegerValue(value=value)
    if isinstance(value, float):
        return arguments.FloatValue(text=repr(value))
    if isinstance(value, str):
        return arguments.TextValue(value=value)
    if isinstance(value, torch.dtype):
        return arguments.DtypeValue(name=str(value).removeprefix("torch."))
    if isinstance(value, list | tuple):
        return arguments.ListValue(items=tuple(scalar(v) for v in value), is_tuple=isinstance(value, tuple))
    raise TypeError(f"an argument of type {type(value).__name__} cannot be passed to a candidate")


def write(inputs: CallInputs, arena: Arena, regions: Sequence[Region]) -> None:
    """Copy the storages into the arena."""
    memory = _bytes_of(arena)
    for buffer, region in zip(inputs.buffers(), regions, strict=True):
        at, storage = 0, buffer.storage.numpy()
        for part in region.held:
            begin = region.offset + part.start
            memory[begin : begin + part.nbytes] = storage[at : at + part.nbytes]
            at += part.nbytes


def storages(arena: Arena, regions: Sequence[Region]) -> list[torch.Tensor]:
    """Private copies of what the storages hold now; of far rows, as the judge keeps them."""
    memory = _bytes_of(arena)
    return [torch.from_numpy(_held(memory[r.offset : r.offset + r.nbytes], r)) for r in regions]


def _held(memory: npt.NDArray[np.uint8], region: Region) -> npt.NDArray[np.uint8]:
    if not region.parts:
        return memory.copy()
    return np.concatenate([memory[part.start : part.start + part.nbytes] for part in region.parts])


def in_place(arena: Arena, region: Region) -> torch.Tensor:
    """The storage itself, not a copy: what is written to it is what the child sees."""
    return torch.frombuffer(arena.buffer, dtype=torch.uint8, count=region.nbytes, offset=region.offset)


def outputs(arena: Arena, described: Sequence[OutputTensor]) -> list[torch.Tensor]:
    """Private copies of the returned tensors with the strides they had.

    One for which the arena had no room is not what was expected: it comes as one element expanded to its shape.
    """
    return tensors(_bytes_of(arena), described)


def copied(arena: Arena, nbytes: int) -> Bytes:
    """A private copy of the first bytes."""
    return _bytes_of(arena)[:nbytes].copy()


def tensors(memory: Bytes, described: Sequence[OutputTensor]) -> list[torch.Tensor]:
    """As `outputs`, out of a private copy of the arena."""
    return [_output(memory, one) for one in described]


def _output(memory: Bytes, one: OutputTensor) -> torch.Tensor:
    dtype = getattr(torch, one.dtype)
    if one.offset is None:
        return torch.zeros((), dtype=dtype).expand(one.shape)
    numel = math.prod(one.shape)
    nbytes = numel * ITEM_SIZES[one.dtype]
    if one.offset + nbytes > len(memory):
        return torch.zeros((), dtype=dtype).expand(one.shape)
    if numel == 0:
        return torch.empty(one.shape, dtype=dtype)
    flat = torch.from_numpy(memory[one.offset : one.offset + nbytes].copy()).view(dtype)
    plain = flat.reshape(one.shape)
    if plain.stride() == one.strides:
        return plain
    span = 1 + sum((size - 1) * stride for size, stride in zip(one.shape, one.strides, strict=True))
    if span < numel or span > DENSE_SLACK * numel:
        return plain
    return torch.empty_strided(one.shape, one.strides, dtype=dtype).copy_(plain)


def room_for(tensors: Sequence[torch.Tensor]) -> int:
    """Bytes of an output arena for tensors like these."""
    return sum(-(-t.numel() * t.element_size() // ALIGNMENT) * ALIGNMENT + ALIGNMENT for t in tensors) + ALIGNMENT


def _bytes_of(arena: Arena) -> Bytes:
    return np.frombuffer(arena.buffer, dtype=np.uint8)
