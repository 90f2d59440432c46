"""Decides whether a call lies where the kernel is proven, and which tuned workload it is nearest to.

A call is admitted if its sizes, dtypes, layouts and scalars lie in a proven box and in no refuted one, on the device
type it was proven on, and if Triton can compile for that device in this process. Everything else is the reference's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

_ALIGNED = 16
"""Bytes: what Triton takes for granted of an address that it calls divisible."""
_REMEMBERED = 4096
"""Decisions kept; a model with more distinct calls than this starts anew."""


@dataclass(frozen=True)
class Box:
    """Ranges of sizes (both ends included) with the dtypes, layouts and scalars they were checked with."""

    dims: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    dtypes: Mapping[str, str] = field(default_factory=dict)
    layouts: Mapping[str, str] = field(default_factory=dict)
    scalars: Mapping[str, object] = field(default_factory=dict)

    def holds(self, dims: Mapping[str, int], arguments: Mapping[str, Any], *, unnamed: bool = False) -> bool:
        """Whether a call with these sizes and arguments lies in the box; with `unnamed`, layouts and scalars that the
        box does not name may be any."""
        if any(not low <= dims[name] <= high for name, (low, high) in self.dims.items()):
            return False
        return all(self._fits(name, value, unnamed) for name, value in arguments.items())

    def _fits(self, name: str, value: object, unnamed: bool) -> bool:
        if isinstance(value, torch.Tensor):
            dtype = self.dtypes.get(name, dtype_name(value))
            laid_out = (unnamed and name not in self.layouts) or layout(value) == self.layouts.get(name, "contiguous")
            return dtype == dtype_name(value) and laid_out
        if isinstance(value, list | tuple):
            return all(self._fits(name, one, unnamed) for one in value)
        return unnamed or value is not None if name not in self.scalars else value == self.scalars[name]


@dataclass(frozen=True)
class Point:
    """A workload the kernel was tuned for."""

    dims: Mapping[str, int]
    dtypes: Mapping[str, str]

    def distance(self, dims: Mapping[str, int], arguments: Mapping[str, Any]) -> tuple[int, float]:
        """How far a call is: first tensors of another dtype, then squared distance of sizes in log space."""
        other = sum(
            isinstance(arguments.get(name), torch.Tensor) and dtype_name(arguments[name]) != dtype
            for name, dtype in self.dtypes.items()
        )
        steps = (math.log(max(dims[name], 1) / max(size, 1)) for name, size in self.dims.items())
        return other, sum(step * step for step in steps)


@dataclass(frozen=True)
class Guard:
    """The proven region of one operator; decisions are remembered by shapes, strides, dtypes and scalars."""

    device: str
    names: tuple[str, ...]
    dims_of: Callable[..., dict[str, int] | None]
    """Sizes by name from the call's arguments; None where they do not fit the operator."""
    admitted: tuple[Box, ...]
    refuted: tuple[Box, ...]
    workloads: tuple[Point, ...]
    _decided: dict[object, int | None] = field(default_factory=dict)

    def nearest(self, *args: Any) -> int | None:
        """Index of the tuned workload whose configuration serves this call; None: not proven here."""
        key = tuple(map(_facts, args))
        if key not in self._decided:
            if len(self._decided) >= _REMEMBERED:
                self._decided.clear()
            self._decided[key] = self._decide(args)
        return self._decided[key]

    def _decide(self, args: tuple[Any, ...]) -> int | None:
        tensors = [t for arg in args for t in (arg if isinstance(arg, list | tuple) else [arg])]
        tensors = [t for t in tensors if isinstance(t, torch.Tensor)]
        plain = all(type(t) in (torch.Tensor, torch.nn.Parameter) and t.device.type == self.device for t in tensors)
        dims = self.dims_of(*args) if plain else None
        if dims is None or not ready(self.device):
            return None
        arguments = dict(zip(self.names, args, strict=True))
        admitted = any(box.holds(dims, arguments) for box in self.admitted)
        if not admitted or any(box.holds(dims, arguments, unnamed=True) for box in self.refuted):
            return None
        return min(range(len(self.workloads)), key=lambda i: self.workloads[i].distance(dims, arguments), default=0)


def _facts(arg: Any) -> object:
    if isinstance(arg, torch.Tensor):
        # a subclass (fake, functional) may have no address; it is refused by its type
        address = arg.data_ptr() % _ALIGNED if type(arg) in (torch.Tensor, torch.nn.Parameter) else 0
        return type(arg), arg.shape, arg.stride(), arg.dtype, arg.device.type, address
    if isinstance(arg, list | tuple):
        return tuple(map(_facts, arg))
    return type(arg), arg


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def layout(tensor: torch.Tensor) -> str:
    """How a tensor lies in memory, in the words the boxes use; `other` is in no box."""
    if tensor.is_contiguous():
        return "contiguous" if tensor.data_ptr() % _ALIGNED == 0 else "offset"
    strides, shape = tensor.stride(), tensor.shape
    if strides[0] == 0 and tensor[0].is_contiguous():
        return "expanded"
    if tensor.dim() >= 2 and tensor.transpose(-1, -2).is_contiguous():
        return "transposed"
    nested = all(strides[i] == strides[i + 1] * shape[i + 1] for i in range(tensor.dim() - 2))
    if nested and strides[-1] == 1 and strides[-2] > shape[-1]:
        return "rows sliced"
    if nested and strides[-1] == 2 and (tensor.dim() == 1 or strides[-2] >= 2 * shape[-1] - 1):
        return "stepped"
    return "other"


@functools.cache
def ready(device: str) -> bool:
    """Whether Triton can compile for this device type here; on the CPU that takes a Triton CPU backend."""
    try:
        from triton.runtime import driver

        active = driver.active.get_active_torch_device()
    except (ImportError, RuntimeError):
        return False
    return bool(active.type == device)
