"""One goal with its figure, and the table of them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """A figure that reaches its goal from above (`at_least`) or from below."""

    what: str
    figure: float
    goal: float
    unit: str
    at_least: bool
    detail: str
    """How the figure came about: medians and counts, in words."""

    @property
    def reached(self) -> bool:
        return self.figure >= self.goal if self.at_least else self.figure <= self.goal

    def as_json(self) -> dict[str, str | float | bool]:
        return {**vars(self), "reached": self.reached}


def table(lines: Sequence[Line]) -> str:
    """For a person: goal, figure, whether it is reached, and how it was measured."""
    rows = [("", "goal", "figure", "", "measured")]
    for line in lines:
        sign = ">=" if line.at_least else "<="
        verdict = "reached" if line.reached else "MISSED"
        rows.append((line.what, f"{sign} {line.goal:g} {line.unit}", f"{line.figure:.3g}", verdict, line.detail))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
