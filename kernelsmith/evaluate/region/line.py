"""One dim of an operator, walked from a base case: which sizes it can have there, and the case at each.

Other dims keep the base's sizes unless a relation ties them to this one; scalars stay in their ranges. Invariant: every
case it gives is legal and small enough to run in passing.
"""

from __future__ import annotations

import functools
import itertools
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
REACH, TIED_REACH = 1024, 128
"""Sizes in a row that are tried for a legal one: relations ask for multiples of heads, groups and blocks. One that
is not takes up to 1 ms, but 10 ms where relations tie two or more other dims to it: then the latter."""


class Line:
    """The cases along dim `name` through `base`."""

    def __init__(self, op: LoadedOperator, base: Case, name: str, *, most: int = MOST_ELEMENTS) -> None:
        """`most`: the most input elements that a case may have, unless the base has more."""
        (dim,) = (dim for dim in op.dims if dim.name == name)
        self._op = op
        self._most = max(most, elements(op, base.dims))
        self._legal: dict[int, dict[str, int] | None] = {}
        self.base = base
        self.name = name
        self.low = dim.low
        self.declared_high = dim.high

    @property
    def here(self) -> int:
        """The base's own size."""
        return self.base.dims[self.name]

    @functools.cached_property
    def reach(self) -> int:
        """Sizes in a row that are tried for a legal one."""
        tied = {other for rule in self._op.relations if self.name in rule.names for other in rule.names}
        return REACH if len(tied) <= 2 else TIED_REACH

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
        dims = self._dims(size)
        if dims is None or elements(self._op, dims) > self._most:
            return None
        return self.base if size == self.here else resized(self._op, self.base, dims)

    def legal(self, size: int) -> bool:
        """Whether other dims have sizes that are legal with that one, however large they are."""
        return self._dims(size) is not None

    def case(self, size: int) -> Case:
        """The case at a size that is known to be possible."""
        found = self.at(size)
        assert found is not None, f"{self.name}={size} is not possible"
        return found

    def _dims(self, size: int) -> dict[str, int] | None:
        """The base's sizes with that one, others moved as far as relations want it."""
        if size not in self._legal:
            dims = self.base.dims | {self.name: size}
            here = size == self.here or self._op.legal(dims)
            self._legal[size] = dims if here else nearest(self._pinned(size), dims)
        return self._legal[size]

    def _pinned(self, size: int) -> LoadedOperator:
        """The operator with this dim at one size, so that only others move to make sizes legal."""
        dims = tuple(Dim(d.name, size, size) if d.name == self.name else d for d in self._op.dims)
        return replace(self._op, dims=dims)

    def between(self, low: int, high: int) -> int | None:
        """A possible size strictly between two others, near their middle; None if none is found."""
        middle = (low + high) // 2
        half = self.reach // 2
        upwards, downwards = range(max(middle, low + 1), high)[:half], range(middle - 1, low, -1)[:half]
        outwards = (size for pair in itertools.zip_longest(upwards, downwards) for size in pair if size is not None)
        return next((size for size in outwards if self.at(size) is not None), None)

    def towards(self, size: int, limit: int) -> int | None:
        """The possible size nearest to `size` that lies from there to `limit`, both included; None if none is found."""
        step = 1 if limit >= size else -1
        tried = range(size, limit + step, step)[: self.reach]
        return next((one for one in tried if self.at(one) is not None), None)

    def next(self, size: int, step: int) -> int | None:
        """The possible size nearest to another one, below it (`step` -1) or above it (1); None if none is found."""
        limit = self.low if step < 0 else self.high
        return None if size == limit else self.towards(size + step, limit)

    def barren(self, one: int, other: int) -> bool:
        """Whether it is known that no size strictly between two others is legal."""
        between = range(min(one, other) + 1, max(one, other))
        return len(between) <= 4 * self.reach and not any(map(self.legal, between))

    def through(self, base: Case, *, most: int = MOST_ELEMENTS) -> Line:
        """The same dim through another case."""
        return Line(self._op, base, self.name, most=most)


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
    first = {name: spec.near[0] for name, spec in op.arguments.items() if isinstance(spec, TensorSpec)}
    return {name: layout.value for name, layout in first.items() if layout is not Layout.CONTIGUOUS}
