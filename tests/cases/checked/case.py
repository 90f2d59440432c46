"""What a case of a checked build is: a host function with small inputs, and the fault that its kernels have, if any.

The line to blame carries the comment `# fault: NAME`; a race has two. Kernels that nobody may blame have cases like any
other: each fault has an honest twin that looks much like it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from kernelsmith.faults import FaultKind, Schedule

Inputs = Callable[[], tuple[object, ...]]


@dataclass(frozen=True)
class Case:
    """`fault` is the kind that a checked run finds under one of `schedules`; None: it finds nothing under any."""

    host: Callable[..., object]
    inputs: Inputs
    fault: FaultKind | None = None
    schedules: tuple[Schedule, ...] = tuple(Schedule)

    @property
    def name(self) -> str:
        return self.host.__name__

    @property
    def places(self) -> frozenset[str]:
        """`file:line` of the lines to blame, of which a report names one; none where the fault is in no kernel."""
        path = Path(inspect.getsourcefile(self.host) or "")
        lines = enumerate(path.read_text().splitlines(), 1)
        return frozenset(f"{path.name}:{number}" for number, text in lines if text.endswith(f"# fault: {self.name}"))


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def randint(high: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=torch.Generator().manual_seed(seed), dtype=torch.int32)
