"""One dim of an operator, walked from a base case: which sizes it can have there, and the case at each.

Other dims keep the base's sizes unless a relation ties them to this one; scalars stay in their ranges. Invariant: every
case it gives is legal and small enough to run in passing.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace

from kernelsmith.base import Scalar
from kernelsmith.evaluate.truth.inputs import Case
from kernelsmith.evaluate.truth.sizes import elements, nearest
from kernelsmith.operators.declare import Layout, ScalarSpec, TensorSpec
from kernelsmith.operators.expressions import Dim
from kernelsmith.operators.loaded import LoadedOperator, number

MOST_ELEMENTS = 1 << 18
"""Input elements of a case that is run to find an edge: its truth takes some 20 ms."""


class Line:
    """The cases along dim `name` through `base`."""

    def __init__(self, op: LoadedOperator, base: Case, name: str, *, most: int = MOST_ELEMENTS) -> None:
        """`most`: the most input elements that a case may have, unless the base has more."""
        (dim,) = (dim for dim in op.dims if dim.name == name)
        self._op = op
        self._most = max(most, elements(op, base.dims))
        self._cases: dict[int, Case | None] = {}
        self.base = base
        self.name = name
        self.low = dim.low
        self.declared_high = dim.high

    @property
    def here(self) -> int:
        """The base's own size."""
        return self.base.dims[self.name]

    @functools.cached_property
    def high(self) -> int:
        """The largest size up to the declared one whose case is small enough to run."""
        low, high = self.here, self.declared_high
        while low < high:
            middle = (low + high + 1) // 2
            if elements(self._op, self.base.dims | {self.name: middle}) <= self._most:
                low = middle
            else:
                high = middle - 1
        return low

    def at(self, size: int) -> Case | None:
        """The case at that size; None where it would be illegal or too large."""
        if size not in self._cases:
            self._cases[size] = self._at(size)
        return self._cases[size]

    def case(self, size: int) -> Case:
        """The case at a size that is known to be possible."""
        found = self.at(size)
        assert found is not None, f"{self.name}={size} is not possible"
        return found

    def _at(self, size: int) -> Case | None:
        if size == self.here:
            return self.base
        dims = self.base.dims | {self.name: size}
        if not self._op.legal(dims):
            moved = nearest(self._pinned(size), dims)
            if moved is None:
                return None
            dims = moved
        if elements(self._op, dims) > self._most:
            return None
        return resized(self._op, self.base, dims)

    def _pinned(self, size: int) -> LoadedOperator:
        """The operator with this dim at one size, so that only others move to make sizes legal."""
        dims = tuple(Dim(d.name, size, size) if d.name == self.name else d for d in self._op.dims)
        return replace(self._op, dims=dims)

    def between(self, low: int, high: int) -> int | None:
        """A possible size strictly between two others, as near to their middle as can be; None if there is none."""
        middle = (low + high) // 2
        moved = nearest(self._op, self.base.dims | {self.name: middle})
        tried = [middle, *([moved[self.name]] if moved else []), low + 1, high - 1]
        return next((size for size in tried if low < size < high and self.at(size) is not None), None)

    def towards(self, size: int, limit: int) -> int | None:
        """The possible size nearest to `size` that lies from there to `limit`, both included."""
        for tried in _steps(size, limit):
            if self.at(tried) is not None:
                return tried
        return None


_NEARBY = 64
"""Sizes in a row that are tried for a legal one."""


def _steps(size: int, limit: int) -> range:
    step = 1 if limit >= size else -1
    return range(size, limit + step, step)[:_NEARBY]


def resized(op: LoadedOperator, case: Case, dims: Mapping[str, int]) -> Case:
    """The case with other sizes; scalars that depend on them stay inside their ranges. It is no tuned workload."""
    scalars: dict[str, Scalar | None] = {name: _fitted(op, name, v, dims) for name, v in case.scalars.items()}
    return case.model_copy(update={"dims": dict(dims), "scalars": scalars, "workload": None})


def _fitted(op: LoadedOperator, name: str, value: Scalar | None, dims: Mapping[str, int]) -> Scalar | None:
    spec = op.arguments.get(name)
    if not isinstance(spec, ScalarSpec) or value is None or isinstance(value, str | bool):
        return value
    low, high = number(spec.low, dims), number(spec.high, dims)
    fitted = value if low is None else max(value, low)
    return fitted if high is None else min(fitted, high)


def plain_layouts(op: LoadedOperator) -> dict[str, str]:
    """The first layout that each tensor may have, as a case names them: contiguous ones are left out."""
    first = {name: spec.layouts[0] for name, spec in op.arguments.items() if isinstance(spec, TensorSpec)}
    return {name: layout.value for name, layout in first.items() if layout is not Layout.CONTIGUOUS}
