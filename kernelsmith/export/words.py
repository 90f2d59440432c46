"""Records of an evaluation as Python literals for the package and as tables for its page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from kernelsmith.export.cases import Case
from kernelsmith.model import Evaluation, Workload
from kernelsmith.space import Region
from kernelsmith.text import line

MAX_ROWS = 12
"""Regions on the package's page; more would hide the rest of it."""


def boxes(regions: Iterable[Region]) -> str:
    """Elements of a tuple of `Box(...)`."""
    return "".join(
        f"Box(dims={r.dims!r}, dtypes={r.dtypes!r}, layouts={r.layouts!r}, scalars={r.scalars!r}), " for r in regions
    )


def points(workloads: Iterable[Workload]) -> str:
    """Elements of a tuple of `Point(...)`."""
    return "".join(f"Point(dims={w.dims!r}, dtypes={w.dtypes!r}), " for w in workloads)


def case_list(found: Iterable[Case]) -> str:
    return "".join(f"({c.dims!r}, {c.dtypes!r}, {c.scalars!r}), " for c in found)


def region_table(regions: Sequence[Region]) -> str:
    """A Markdown table with one row per box."""
    dims = list(dict.fromkeys(name for r in regions for name in r.dims))
    head = [*dims, "dtypes", "layouts", "how"]
    rows = [
        [
            *(_range(*r.dims[d]) if d in r.dims else "any" for d in dims),
            next(iter(r.dtypes.values())) if len(set(r.dtypes.values())) == 1 else _pairs(r.dtypes) or "any",
            _pairs({k: v for k, v in r.layouts.items() if v != "contiguous"}) or "contiguous",
            r.status.value + (f", {_pairs(r.scalars)}" if r.scalars else ""),
        ]
        for r in sorted(regions, key=_volume, reverse=True)[:MAX_ROWS]
    ]
    more = len(regions) - len(rows)
    return _table(head, rows) + (f"\n\nand {more} smaller regions, listed in `_proven.py`." if more else "")


def _volume(region: Region) -> tuple[int, int]:
    """Calls in a box, then the work in its largest: what a reader looks for first."""
    return (
        math.prod(high - low + 1 for low, high in region.dims.values()),
        math.prod(high for _, high in region.dims.values()),
    )


def timing_table(evaluation: Evaluation, target: str) -> str:
    """What is measured, one row per workload; estimates, called so, where the device was not there."""
    timings = evaluation.timings
    if not timings:
        unmeasured = f"Not measured on the device ({target}), nor run there: proven on a processor, built for it."
        if not evaluation.estimates:
            return unmeasured
        head = ["workload", "estimated us", "of the roofline", "limited by"]
        rows = [
            [e.workload, f"{e.microseconds:.3g}", f"{e.roofline_share:.0%}", e.limit.value]
            for e in evaluation.estimates
        ]
        return f"{unmeasured} A cost model estimates:\n\n{_table(head, rows)}"
    intro = f"Measured on {target}, interleaved with the baselines; speed-up with its 95 % interval."
    names = list(timings[0].baselines)
    head = ["workload", "kernel ms", *(f"{n} ms" for n in names), "speed-up over the best", "verdict"]
    rows = []
    for t in timings:
        best = t.best_baseline
        low, high = t.speedup_ci95[best]
        speed = f"{t.speedup[best]:.2f} ({low:.2f} to {high:.2f})"
        times = (f"{t.baselines[n]:.4g}" if n in t.baselines else "" for n in names)
        rows.append([t.workload.label, f"{t.median_ms:.4g}", *times, speed, t.verdict.value])
    return f"{intro}\n\n{_table(head, rows)}"


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}..{high}"


def _pairs(values: dict[str, str] | dict[str, bool | int | float | str | None]) -> str:
    return ", ".join(f"{k} {v}" for k, v in values.items())


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line(cell).replace("|", "\\|") for cell in row) + " |" for row in lines)
