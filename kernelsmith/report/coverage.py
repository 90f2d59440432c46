"""Which part of an operator's input space was run, and where it was wrong: sizes x dtypes x layouts, as grids.

One grid per dim: columns are its sizes in classes of powers of two, rows are dtypes and layouts. Made of `Evidence`
alone; drawn as text by `evidence`, as a page by `html`. No torch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kernelsmith.evidence import Evidence
from kernelsmith.outcome import Outcome
from kernelsmith.space import Where

PLAIN = "contiguous"


@dataclass(frozen=True)
class Cell:
    """Cases of one size class, dtype and layout."""

    right: int = 0
    wrong: int = 0

    def plus(self, right: int, wrong: int) -> Cell:
        return Cell(self.right + right, self.wrong + wrong)


@dataclass(frozen=True)
class Row:
    label: str
    """Such as `float16, x transposed`, or what was swept."""
    cells: tuple[Cell, ...]
    """One per column of the grid."""


@dataclass(frozen=True)
class Grid:
    dim: str
    columns: tuple[tuple[int, int], ...]
    """Classes of sizes, both ends included."""
    rows: tuple[Row, ...]


def grids(evidence: Evidence) -> tuple[Grid, ...]:
    """One grid per dim that was tried."""
    made = (_grid(evidence, name, low, high) for name, (low, high) in evidence.dims.items())
    return tuple(grid for grid in made if grid.rows)


def _grid(evidence: Evidence, dim: str, smallest: int, largest: int) -> Grid:
    columns = size_classes(smallest, largest)
    rows: dict[str, dict[int, Cell]] = defaultdict(lambda: defaultdict(Cell))
    for case in evidence.cases:
        size = case.where.dims.get(dim)
        if size is not None:
            right = case.outcome is Outcome.PASSED
            row, column = rows[label(case.where)], _column(columns, size)
            row[column] = row[column].plus(int(right), int(not right))
    for swept in evidence.swept:
        if swept.sweep.name == dim:
            row = rows[f"sweep {swept.sweep}"]
            for column, (low, high) in enumerate(columns):
                row[column] = row[column].plus(*swept.right_wrong(low, high))
    drawn = (Row(text, tuple(cells.get(i, Cell()) for i in range(len(columns)))) for text, cells in rows.items())
    return Grid(dim, columns, tuple(sorted(drawn, key=lambda row: (row.label.startswith("sweep"), row.label))))


def size_classes(low: int, high: int) -> tuple[tuple[int, int], ...]:
    """The range cut at powers of two: 0, 1, 2-3, 4-7, ..."""
    found, start = [], low
    while start <= high:
        end = min(high, (1 << start.bit_length()) - 1)
        found.append((start, end))
        start = end + 1
    return tuple(found)


def _column(columns: Sequence[tuple[int, int]], size: int) -> int:
    """The class of a size; one outside of the declared range counts with the nearest."""
    return next((i for i, (_, high) in enumerate(columns) if size <= high), len(columns) - 1)


def label(where: Where) -> str:
    """Dtypes and layouts of a case, in a few words."""
    return ", ".join(filter(None, (_dtypes(where.dtypes), *_layouts(where.layouts.items())))) or "as given"


def _dtypes(dtypes: dict[str, str]) -> str:
    if len(set(dtypes.values())) <= 1:
        return next(iter(dtypes.values()), "")
    return " ".join(f"{name}:{dtype}" for name, dtype in dtypes.items())


def _layouts(layouts: Iterable[tuple[str, str]]) -> list[str]:
    return [f"{name} {layout}" for name, layout in layouts if layout != PLAIN]
