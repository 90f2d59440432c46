"""Legal sizes: the nearest ones to those that are wanted, which sizes of a dim show faults, and how much memory they
take. Called by `explore` and by whoever walks a dim."""

from __future__ import annotations

import functools
import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kernelsmith.errors import OperatorError
from kernelsmith.evaluate.truth.alternatives import Alternatives
from kernelsmith.evaluate.truth.answers import run
from kernelsmith.evaluate.truth.inputs import materialise
from kernelsmith.operators.declare import TensorSpec
from kernelsmith.operators.expressions import Dim
from kernelsmith.operators.loaded import LoadedOperator

MIXED = (37, 130, 5, 67, 1, 100, 17, 3, 257, 2, 33, 64, 7, 129, 31, 200)
"""Sizes that are combined across dims; odd ones first."""
FEW_EDGES = (257, 1, 1025, 2)
EDGES = (
    *(257, 1, 1025, 2, 3, 7, 1000),
    *(65, 63, 33, 31, 17, 15, 9, 5, 4, 8, 16, 32, 64),
    *(127, 129, 511, 513, 1023, 2047, 2049, 13, 61, 251, 509, 1021),
    *(65536, 65535, 65537, 4097, 8193, 16385, 32769, 4095, 8191),
    *(2**k + d for k in range(4, 17) for d in (1, -1, 0)),
)
"""Sizes of one dim at which tails, warps (32 and 64 lanes), vectors (4, 8, 16 elements) and grids (65,535 programs)
begin or end, and primes; those at which most kernels were seen to fail come first."""
FIRST_EDGES = 20
"""Of them, those that come before sizes that are drawn."""
LONG = (8209, 4099, 2053, 1031, 521)
"""A long dim, as long as the operator allows: accumulators show their width here."""


def drawn_sizes(seed: int) -> list[int]:
    """One size at random from each octave, so that no table tells a kernel which sizes are never looked at."""
    lots = random.Random(seed)
    return [lots.randrange(1 << k, 2 << k) for k in range(3, 16)]


def edges_of(blocks: Iterable[int]) -> list[int]:
    """Sizes around block sizes: one off, the size itself, one off a multiple, and what is no multiple."""
    near = [b + d for b in blocks for d in (1, -1, 0)]
    return list(dict.fromkeys([*near, *(n for b in blocks for n in (2 * b + 1, 3 * b - 1, 2 * b, b + b // 2))]))


SMALL, CHEAP = 8, 1 << 20
"""Size of all dims at which outputs are looked at, and the most input elements for that."""


def elements(op: LoadedOperator, dims: Mapping[str, int]) -> int:
    """Elements of all tensor arguments, or of what the reference is expected to return where these are more: a truth
    takes several times their bytes."""
    growth = _growth(op)
    return max(_given(op, dims), growth.at(dims) if growth is not None else 0)


def _given(op: LoadedOperator, dims: Mapping[str, int]) -> int:
    total = 0
    for name, spec in op.arguments.items():
        if isinstance(spec, TensorSpec):
            count = 1 if spec.count is None else spec.count.value(dims)
            total += count * math.prod(op.shape(name, dims))
    return total


@dataclass(frozen=True)
class _Growth:
    """How many elements the reference returns: `count` at `dims`, growing with these powers of each dim."""

    count: int
    dims: Mapping[str, int]
    powers: Mapping[str, int]

    def at(self, dims: Mapping[str, int]) -> int:
        return int(self.count * math.prod((dims[n] / size) ** self.powers[n] for n, size in self.dims.items()))


@functools.lru_cache(maxsize=16)
def _growth(op: LoadedOperator) -> _Growth | None:
    """Learned from the reference at small sizes and with each dim doubled; None where it does not run at any that are
    cheap. A power is rounded up: what depends on a dim in another way is taken for more than it is."""
    tried = (dict.fromkeys((d.name for d in op.dims), SMALL), *(dict(w.dims) for w in op.workloads))
    for wanted in tried:
        small = nearest(op, wanted)
        if small is not None and all(small.values()) and (count := _returned(op, small)):
            return _Growth(count, small, {d.name: _power(op, small, count, d.name) for d in op.dims})
    return None


def _power(op: LoadedOperator, small: dict[str, int], count: int, name: str) -> int:
    """Other dims may have to grow with this one, and are then held to have as much part in it."""
    large = nearest(op, small | {name: 2 * small[name]})
    grown = math.log(math.prod(large.values()) / math.prod(small.values())) if large is not None else 0.0
    if large is None or large[name] <= small[name] or grown <= 0 or not (more := _returned(op, large)):
        return 0
    return max(0, math.ceil(math.log(more / count) / grown - 1e-6))


def _returned(op: LoadedOperator, dims: dict[str, int]) -> int:
    """Elements of what the reference returns and changes; 0 where it is not known."""
    case = Alternatives(op).case(dims) if _given(op, dims) <= CHEAP else None
    if case is None:
        return 0
    inputs = materialise(op, case, seed=0)
    try:
        answer = run(op, inputs, inputs.tensors(), op.reference)
    except OperatorError:  # whoever asks for a truth is told so
        return 0
    return sum(one.numel() for one in answer.all)


def fitting(op: LoadedOperator, wanted: Mapping[str, int], most: int) -> dict[str, int] | None:
    """Legal dims near `wanted` at which neither the arguments nor what is returned have more than `most` elements."""
    goal = dict(wanted)
    for _ in range(24):
        dims = nearest(op, goal)
        if dims is None or elements(op, dims) <= most:
            return dims
        largest = max(goal, key=lambda n: goal[n])
        if goal[largest] <= 2:
            return None
        goal[largest] = max(2, goal[largest] // 2 + 1)
    return None


def nearest(op: LoadedOperator, wanted: Mapping[str, int]) -> dict[str, int] | None:
    """Legal dims near `wanted`, or None where a bounded search finds none.

    Repairs one broken rule after the other by the smallest move of one dim (then of two) that leaves fewer broken.
    """
    dims = {d.name: min(max(wanted[d.name], d.low), d.high) for d in op.dims}
    for _ in range(2 * len(op.dims) + len(op.relations) + 1):
        broken = list(op.broken(dims))
        if not broken:
            return dims
        involved = [d for d in op.dims if any(d.name in names for _, names in broken)]
        better = _repaired(op, dims, involved, 1, len(broken)) or _repaired(op, dims, involved, 2, len(broken))
        if better is None:
            return None
        dims = better
    return None


def _repaired(
    op: LoadedOperator, dims: dict[str, int], involved: Sequence[Dim], moved: int, broken: int
) -> dict[str, int] | None:
    """`dims` with `moved` of the involved dims changed so that fewer than `broken` rules are."""
    found: list[dict[str, int]] = []
    for chosen in itertools.combinations(involved, moved):
        options = [_nearby(dims[d.name], d.low, d.high, tuple(dims.values())) for d in chosen]
        for sizes in itertools.product(*(o if moved == 1 else o[:24] for o in options)):
            attempt = dims | {d.name: s for d, s in zip(chosen, sizes, strict=True)}
            if len(list(itertools.islice(op.broken(attempt), broken))) < broken:
                found.append(attempt)
                break
    return min(found, key=lambda f: sum(abs(math.log((f[n] + 1) / (dims[n] + 1))) for n in f), default=None)


def _nearby(size: int, low: int, high: int, others: Sequence[int]) -> list[int]:
    """Sizes to try instead of `size`, nearest first: neighbours, multiples and divisors of what the others have."""
    found = {size + step for step in range(-64, 65)}
    found |= {1 << k for k in range(17)}
    for other in others:
        found |= {other, 2 * other, 4 * other, 8 * other, other // 2, other // 4, other // 8}
    for unit in (8, 16, 32, 64, 128, 256):
        found |= {size // unit * unit, -(-size // unit) * unit}
    legal = [s for s in found if low <= s <= high]
    return sorted(legal, key=lambda s: (abs(s - size), s))
