"""What a verdict rests on, in lines for a terminal: what was run, how near the answers came, what was left out."""

from __future__ import annotations

from collections.abc import Sequence

from kernelsmith.evidence import Evidence, Repeats, Swept
from kernelsmith.outcome import Outcome
from kernelsmith.render import duration, table
from kernelsmith.report.coverage import Cell, Grid, grids
from kernelsmith.space import Region, RegionStatus, interval
from kernelsmith.text import line

NOT_TRIED = "."
MOST_RANGES = 8
"""Ranges of sizes that a line names."""
LEGEND = f"cases per size class (64+ is 64..127), dtype and layout: {NOT_TRIED} none, !n of them wrong"


def evidence_lines(evidence: Evidence) -> list[str]:
    """What was run and what it showed, shortest first; the verdict, and where it fails, are said elsewhere."""
    lines = [_run(evidence)]
    lines += [line(one.describe(), 300)] if (one := evidence.closest) else []
    lines += [repeats_line(evidence.repeats)] if evidence.repeats else []
    lines += [swept_line(one) for one in evidence.swept]
    return lines


def limits_lines(evidence: Evidence) -> list[str]:
    """What was not covered, and which versions did it."""
    versions = ", ".join(f"{name} {line(version)}" for name, version in evidence.versions.items())
    return [f"not covered: {line(text, 400)}" for text in evidence.left_out] + (
        [f"with {versions}"] if versions else []
    )


def map_lines(evidence: Evidence) -> list[str]:
    """The map of the input space, with an empty line before each grid."""
    drawn = grids(evidence)
    lines = [text for grid in drawn for text in ("", *grid_lines(grid))]
    return lines + (["", LEGEND] if drawn else [])


def _run(evidence: Evidence) -> str:
    runs = sum(case.runs for case in evidence.cases)
    wrong = sum(case.outcome is not Outcome.PASSED for case in evidence.cases)
    parts = [f"{len(evidence.cases)} cases", f"{runs} runs compared"]
    parts += [f"{evidence.examined} plans with checked builds"] if evidence.examined else []
    parts += [f"{wrong} wrong"] if wrong else []
    return f"{evidence.level.value}: {', '.join(parts)} in {duration(evidence.seconds)}"


def repeats_line(repeats: Repeats) -> str:
    return f"repeats: {'; '.join(filter(None, (repeats.rate, repeats.bits, repeats.at_once)))}"


def swept_line(swept: Swept) -> str:
    """`sweep K=16..64: 4 of 49 sizes (16..64 by 16), wrong at 64`."""
    total = len(swept.sweep.sizes)
    found = f"wrong at {_ranges(swept.wrong, swept.step)}" if swept.wrong else "none wrong"
    tried = f"all {total:,} sizes" if swept.tried == total else f"{swept.tried:,} of {total:,} sizes"
    which = f" ({_ranges(swept.ran, swept.step)})" if 0 < swept.tried < total else ""
    return f"sweep {swept.sweep}: {tried}{which}, {found if swept.tried else 'nothing was run'}"


def _ranges(ranges: Sequence[tuple[int, int]], step: int) -> str:
    """`9, 33..40`, or `9, 33..49 by 8` where sizes between are not meant; the first few of many."""
    by = f" by {step}" if step > 1 else ""
    shown = ", ".join(interval(low, high) + (by if low < high else "") for low, high in ranges[:MOST_RANGES])
    return shown + (f" and {len(ranges) - MOST_RANGES} more ranges" if len(ranges) > MOST_RANGES else "")


def region_line(region: Region) -> str:
    """`N 1..1024, float16, x transposed: swept`."""
    sizes = [f"{name} {interval(low, high)}" for name, (low, high) in region.dims.items()]
    kinds = [*dict.fromkeys(region.dtypes.values()), *(f"{name} {layout}" for name, layout in region.layouts.items())]
    words = {RegionStatus.SWEPT: "swept", RegionStatus.SAMPLED: "sampled", RegionStatus.REFUTED: "WRONG"}
    return f"{', '.join([*sizes, *kinds]) or 'as given'}: {words[region.status]}"


def grid_lines(grid: Grid) -> list[str]:
    """The grid as aligned text: counts of right cases, `!` before counts of wrong ones."""
    head = (grid.dim, *(str(low) if low == high else f"{low}+" for low, high in grid.columns))
    return table([head, *((row.label, *map(_shown, row.cells)) for row in grid.rows)])


def _shown(cell: Cell) -> str:
    if cell.wrong:
        return f"!{cell.wrong}"
    return str(cell.right) if cell.right else NOT_TRIED
