"""Kernels that are given other memory than the host function sees.

The judge asks for it in some unrecorded calls: an argument's storage has a double in the arena, and whatever of it
reaches a launch (a tensor, a descriptor, an address, in tuples of any depth) is replaced by the same part of the
double. Invariant: nothing else of the call changes, so host code that does not compare kernels' results with its own
cannot tell. The recorder installs it in its launch hook.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch

from kernelsmith.sandbox.wire.tensors import view_over


class Elsewhere:
    """Pairs of flat tensors of one size: what the host function sees, and what its kernels get."""

    def __init__(self, pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
        self._doubles = {here.untyped_storage()._cdata: there.untyped_storage() for here, there in pairs}
        self._ranges = [(here.data_ptr(), here.data_ptr() + here.numel(), there.data_ptr()) for here, there in pairs]

    def of(self, value: Any) -> Any:
        """`value` as a kernel gets it."""
        if isinstance(value, torch.Tensor):
            double = self._doubles.get(value.untyped_storage()._cdata)
            return value if double is None else view_over(value, double)
        if isinstance(value, (tuple, list)):
            items = [self.of(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        if type(value) is int:
            return next((there + value - begin for begin, end, there in self._ranges if begin <= value < end), value)
        if isinstance(getattr(value, "base", None), torch.Tensor):  # descriptors and reinterpreted tensors
            moved = copy.copy(value)
            moved.base = self.of(value.base)
            return moved
        return value
