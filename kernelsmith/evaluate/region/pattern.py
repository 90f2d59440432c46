"""Which rule do the sizes at which a candidate fails follow? Pure logic on what was seen, size by size.

Invariant: a rule that is returned agrees with every size that was seen; nothing simpler that was thought of does.
`edges` asks for more sizes until a rule holds, `sweep` has seen them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

MODULI = (2, 3, *(1 << k for k in range(2, 13)), 5, 6, 7, 10, 12, 24, 48, 96, 100, 192, 384, 768)
"""Periods that are tried: those of vectors, warps, blocks and their multiples by three, and a few of people's."""
LEAST_SEEN = 3
"""Sizes of either kind, wrong and right, that a rule other than an interval must explain."""
MOST_RANGES = 4
"""Intervals that a sentence names."""


class Kind(Enum):
    """What a rule says of the sizes inside its interval."""

    EVERY = auto()
    MULTIPLE = auto()
    """Multiples of the modulus."""
    NOT_MULTIPLE = auto()
    POWER = auto()
    """Powers of two."""
    NOT_POWER = auto()


@dataclass(frozen=True)
class Rule:
    """Sizes at which a candidate is wrong: those from `low` to `high` (None: as far as the dim goes) of one kind."""

    kind: Kind = Kind.EVERY
    modulus: int = 1
    low: int | None = None
    high: int | None = None

    def holds(self, size: int) -> bool:
        if (self.low is not None and size < self.low) or (self.high is not None and size > self.high):
            return False
        match self.kind:
            case Kind.EVERY:
                return True
            case Kind.MULTIPLE:
                return size % self.modulus == 0
            case Kind.NOT_MULTIPLE:
                return size % self.modulus != 0
            case Kind.POWER:
                return _power_of_two(size)
            case Kind.NOT_POWER:
                return not _power_of_two(size)

    def explains(self, seen: Mapping[int, bool]) -> bool:
        return all(self.holds(size) == wrong for size, wrong in seen.items())

    def words(self, name: str) -> str:
        """As in `N in 1025..1536`, `N >= 1025`, `N=768`, `N not a multiple of 64`; empty for all sizes."""
        return ", ".join(part for part in (self._interval(name), self._class(name)) if part)

    def _interval(self, name: str) -> str:
        if self.low is None and self.high is None:
            return ""
        if self.low is None:
            return f"{name} <= {self.high}"
        if self.high is None:
            return f"{name} >= {self.low}"
        return f"{name}={self.low}" if self.low == self.high else f"{name} in {self.low}..{self.high}"

    def _class(self, name: str) -> str:
        match self.kind:
            case Kind.EVERY:
                return ""
            case Kind.MULTIPLE:
                return f"{name} even" if self.modulus == 2 else f"{name} a multiple of {self.modulus}"
            case Kind.NOT_MULTIPLE:
                return f"{name} odd" if self.modulus == 2 else f"{name} not a multiple of {self.modulus}"
            case Kind.POWER:
                return f"{name} a power of two"
            case Kind.NOT_POWER:
                return f"{name} not a power of two"


def _power_of_two(size: int) -> bool:
    return size > 0 and size & (size - 1) == 0


def rule_of(seen: Mapping[int, bool], *, least: int = LEAST_SEEN) -> Rule | None:
    """The simplest rule that explains what was seen, size by size; None where none does.

    Args:
        seen: True where it was wrong; at least one size was.
        least: wrong and right sizes, each, that a rule about classes of sizes must explain to be believed.
    """
    interval = _hull(seen)
    if interval.explains(seen):
        return interval
    for bounds in (Rule(), Rule(low=interval.low), Rule(high=interval.high), interval):
        inside = {size: wrong for size, wrong in seen.items() if bounds.holds(size)}
        wrong = sum(inside.values())
        if wrong < least or len(inside) - wrong < least:
            continue
        for rule in _classes(bounds):
            if rule.explains(seen):
                return rule
    return None


def _hull(seen: Mapping[int, bool]) -> Rule:
    """The smallest interval that holds every wrong size, open where no right size lies beyond."""
    wrong = [size for size, failed in seen.items() if failed]
    right = [size for size, failed in seen.items() if not failed]
    low, high = min(wrong), max(wrong)
    return Rule(low=low if any(s < low for s in right) else None, high=high if any(s > high for s in right) else None)


def _classes(bounds: Rule) -> Iterator[Rule]:
    for modulus in sorted(MODULI):
        yield Rule(Kind.NOT_MULTIPLE, modulus, bounds.low, bounds.high)
        yield Rule(Kind.MULTIPLE, modulus, bounds.low, bounds.high)
    yield Rule(Kind.POWER, 1, bounds.low, bounds.high)
    yield Rule(Kind.NOT_POWER, 1, bounds.low, bounds.high)


def ranges(sizes: Iterable[int], step: int = 1) -> tuple[tuple[int, int], ...]:
    """Sizes as ranges of neighbours (`step` apart), both ends included."""
    found: list[tuple[int, int]] = []
    for size in sorted(sizes):
        if found and size - found[-1][1] == step:
            found[-1] = (found[-1][0], size)
        else:
            found.append((size, size))
    return tuple(found)


def telling(rule: Rule, low: int, high: int, seen: Mapping[int, bool]) -> Iterator[int]:
    """Sizes from `low` to `high`, not seen yet, that would show a rule to be wrong, best first: beside its edges, on
    either side of a class, halves of the modulus, and points between."""
    edges = [(rule.low or low), (rule.high or high)]
    wanted = [edge + step for edge in edges for step in (-1, 0, 1)]
    if rule.kind in (Kind.MULTIPLE, Kind.NOT_MULTIPLE):
        m = rule.modulus
        middle = max(m, (edges[0] + edges[1]) // 2 // m * m)
        wanted += [middle + d for d in (0, 1, -1, m // 2, m)] + [3 * m, 3 * m + m // 2, 5 * m, 5 * m + 1, 7 * m]
    elif rule.kind in (Kind.POWER, Kind.NOT_POWER):
        wanted += [(1 << k) + d for k in (5, 8, 10, 3, 12) for d in (0, 1, -1)] + [96, 1000]
    else:
        third = (edges[1] - edges[0]) // 3
        wanted += [edges[0] + third, edges[1] - third, (edges[0] + edges[1]) // 2 | 1, low, high]
    unique = itertools.filterfalse(seen.__contains__, dict.fromkeys(wanted))
    return (size for size in unique if low <= size <= high)
