"""How fast bytes move on a device, by how many they are: what fits a cache moves faster than memory does.

`bench` holds times against it: no claim may beat the fastest level that its bytes fit into. Invariant: a larger working
set is never said to move faster than a smaller one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from itertools import accumulate

import torch

MEMORY_BYTES = 512 << 20
"""A working set that no cache holds."""
WORKING_SETS = (128 << 10, 1 << 20, 8 << 20, 64 << 20, MEMORY_BYTES)
"""Bytes, of one level of the memory or another on any processor of today."""
TIMES = 5
"""A copy's fastest run counts; small ones run more often, since something is always in the way of one."""


@dataclass(frozen=True)
class Bandwidth:
    """Bytes per second, read and written together, for working sets of so many bytes, the smallest first."""

    rates: tuple[tuple[int, float], ...]

    def __post_init__(self) -> None:
        sizes, rates = zip(*self.rates, strict=True)
        fastest = [*accumulate(reversed(rates), max)][::-1]
        object.__setattr__(self, "rates", tuple(zip(sizes, fastest, strict=True)))

    @property
    def memory(self) -> float:
        """Of what no cache holds: the device's measured peak."""
        return self.rates[-1][1]

    def best(self, nbytes: int) -> float:
        """The most that so many bytes may be expected to move at."""
        below = [rate for size, rate in self.rates if size <= nbytes]
        return below[-1] if below else self.rates[0][1]


def copy_bandwidth() -> Bandwidth:
    """Of plain copies on torch's threads here."""
    rates = []
    for working_set in WORKING_SETS:
        half = working_set // 2
        source, target = torch.ones(half, dtype=torch.uint8), torch.empty(half, dtype=torch.uint8)
        seconds = []
        for _ in range(TIMES * (1 if working_set == MEMORY_BYTES else 10)):
            begin = time.perf_counter()
            target.copy_(source)
            seconds.append(time.perf_counter() - begin)
        rates.append((working_set, working_set / min(seconds)))
    return Bandwidth(tuple(rates))
