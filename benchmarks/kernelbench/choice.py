"""Which problems are run: a share of every category, by rule and never by hand.

Problems are sorted by category and number; every so-many-th of that order is taken, so that each category has its
share.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

KEPT = {1: (10, (0, 3, 6)), 2: (5, (0,))}
"""By level: of every so many problems in a row those at these positions: 30 of 100, and 20 of 100."""
CATEGORIES = (
    ("attention", ("attention", "mingpt")),
    ("convolution", ("conv",)),
    ("matrix product", ("matmul", "matrix", "gemm", "bmm")),
    ("pooling", ("pool",)),
    ("norm", ("norm",)),
    ("scan", ("cumsum", "cumprod")),
    ("loss", ("loss",)),
    ("reduction", ("reduction", "argmax", "argmin")),
)
"""By words in a problem's name, the first that fits; the others are activations."""


@dataclass(frozen=True)
class Problem:
    level: int
    number: int
    path: Path

    @property
    def name(self) -> str:
        return f"{self.level}/{self.path.stem.rstrip('_')}"

    @property
    def category(self) -> str:
        name = self.path.stem.lower()
        return next((c for c, words in CATEGORIES if any(word in name for word in words)), "activation")


def problems(folder: Path, level: int) -> list[Problem]:
    """Of one level; `folder` is KernelBench's own, with `level1` and `level2` in it."""
    files = (folder / f"level{level}").glob("*_*.py")
    return sorted((Problem(level, int(f.name.split("_")[0]), f) for f in files), key=lambda p: p.number)


def chosen(folder: Path, level: int) -> list[Problem]:
    """By category, then by number."""
    order = sorted(problems(folder, level), key=lambda p: (p.category, p.number))
    every, positions = KEPT[level]
    return [problem for place, problem in enumerate(order) if place % every in positions]
