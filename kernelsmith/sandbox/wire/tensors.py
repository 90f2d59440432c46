"""Tensors in and out of arenas: memory that another process maps too becomes tensors, and results become bytes in it.

Invariant: no tensor made here owns memory or reaches outside of its region. Both roles, recorder and launcher, use it
in their confined process; the judge has its own side of the border.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from kernelsmith.plan import ITEM_SIZES, View
from kernelsmith.sandbox.wire.arguments import (
    ALIGNMENT,
    Arguments,
    BoolValue,
    DtypeValue,
    FloatValue,
    IntegerValue,
    ListValue,
    NoneValue,
    Region,
    TensorValue,
    TextValue,
    Value,
)
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.messages import OutputTensor

_DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in ITEM_SIZES}
_NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in _DTYPES.items()}


def dtype_name(dtype: torch.dtype) -> str:
    """Its name at the boundary; raises ValueError for a dtype that cannot cross."""
    try:
        return _NAMES[dtype]
    except KeyError:
        raise ValueError(f"a tensor of dtype {dtype} cannot cross the boundary") from None


def use_threads() -> None:
    """Let torch use as many threads as the judge advises; forks of the zygote begin with one."""
    torch.set_num_threads(int(os.environ.get("KERNELSMITH_THREADS", "1")))


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Torch works with so many threads meanwhile.

    Its helpers spin for a while after they were used, in the way of a clock, and small work waits for helpers that have
    no core to run on.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Arenas:
    """The arenas of the last message, mapped. An arena that comes again keeps its mapping, and so its addresses."""

    def __init__(self) -> None:
        self._mapped: dict[tuple[int, int], Arena] = {}

    def map(self, fds: Sequence[int]) -> list[Arena]:
        """Map the arenas behind the descriptors, which are owned from here on; those not named again are let go.

        They are not closed: tensors may still use them, and the last one to go unmaps.
        """
        mapped: dict[tuple[int, int], Arena] = {}
        arenas: list[Arena] = []
        for fd in fds:
            status = os.fstat(fd)
            key = (status.st_dev, status.st_ino)
            known = mapped.get(key) or self._mapped.get(key)
            if known is None:
                known = Arena.attach(fd, status.st_size)
            else:
                os.close(fd)
            mapped[key] = known
            arenas.append(known)
        for key, arena in self._mapped.items():
            if key not in mapped:
                os.close(arena.fd)
        self._mapped = mapped
        return arenas


def region_bytes(arena: Arena, region: Region) -> torch.Tensor:
    """The region as a flat uint8 tensor whose storage is exactly the region; raises ValueError outside the arena."""
    if region.offset + region.nbytes > arena.nbytes:
        raise ValueError(f"region {region.offset}+{region.nbytes} in an arena of {arena.nbytes} bytes")
    return flat_bytes(arena.buffer, region.offset, region.nbytes)


def flat_bytes(buffer: object, offset: int, nbytes: int) -> torch.Tensor:
    """Part of a writable buffer as a flat uint8 tensor with a storage of its own."""
    if nbytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(buffer, dtype=torch.uint8, count=nbytes, offset=offset)


def view_of(storage: torch.UntypedStorage, view: View) -> torch.Tensor:
    """The tensor that `view` describes over a storage."""
    empty = torch.empty(0, dtype=_DTYPES[view.dtype], device=storage.device)
    return empty.set_(storage, view.offset, view.shape, view.strides)


def view_over(tensor: torch.Tensor, storage: torch.UntypedStorage) -> torch.Tensor:
    """The same part of another storage."""
    empty = torch.empty(0, dtype=tensor.dtype, device=storage.device)
    return empty.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())


def python_arguments(arguments: Arguments, bases: Sequence[torch.Tensor]) -> tuple[list[object], dict[str, object]]:
    """What the host function is called with; `bases` are the regions as flat uint8 tensors."""
    storages = [base.untyped_storage() for base in bases]
    positional = [_python(value, storages) for value in arguments.positional]
    return positional, {named.name: _python(named.value, storages) for named in arguments.keywords}


def _python(value: Value, storages: Sequence[torch.UntypedStorage]) -> object:
    match value:
        case TensorValue():
            return view_of(storages[value.view.buffer], value.view)
        case IntegerValue() | BoolValue() | TextValue():
            return value.value
        case FloatValue():
            return float(value.text)
        case DtypeValue():
            return _DTYPES[value.name]
        case NoneValue():
            return None
        case ListValue():
            items = [_python(item, storages) for item in value.items]
            return tuple(items) if value.is_tuple else items


def write_outputs(
    outputs: Sequence[torch.Tensor], arena: Arena, start: int = 0, end: int | None = None
) -> tuple[tuple[OutputTensor, ...], int]:
    """Copy tensors into the arena from byte `start` to at most `end`, contiguous and aligned; returns where, and the
    first byte that is left.

    A tensor that does not fit is described without an offset.
    """
    written = []
    room = arena.nbytes if end is None else min(end, arena.nbytes)
    for tensor in outputs:
        nbytes = tensor.numel() * tensor.element_size()
        begin = -(-start // ALIGNMENT) * ALIGNMENT
        fits = begin + nbytes <= room
        if fits and nbytes:
            place = flat_bytes(arena.buffer, begin, nbytes).view(tensor.dtype).view(tensor.shape)
            place.copy_(tensor)
        if fits:
            start = begin + nbytes
        written.append(
            OutputTensor(
                dtype=dtype_name(tensor.dtype),
                shape=tuple(tensor.shape),
                strides=tuple(tensor.stride()),
                offset=begin if fits else None,
            )
        )
    return tuple(written), start


def storage_bytes(storage: torch.UntypedStorage) -> bytes:
    """A copy of a storage's contents."""
    flat = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
    data: Callable[[], bytes] = flat.cpu().numpy().tobytes
    return data()
