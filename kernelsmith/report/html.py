"""Reports as one self-contained page: no script, nothing fetched, every text of a model or a kernel escaped.

Jinja2 escapes all that is put into the template; its policy (`Content-Security-Policy`) would refuse a script even if
one came through. Imported only when a page is asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from kernelsmith.records import Reports, RunReport
from kernelsmith.report.coverage import Cell, Grid, grids
from kernelsmith.report.evidence import evidence_lines, limits_lines, region_line
from kernelsmith.report.text import HEAD, facts, overview_row, times
from kernelsmith.text import clean

MOST_REGIONS = 40
"""Shown of a run: sampled points are hundreds, and on the map already."""


@dataclass(frozen=True)
class _Section:
    """One run, as the template takes it."""

    name: str
    facts: list[tuple[str, str]]
    times: list[tuple[str, str, str, str]]
    evidence: list[str]
    grids: tuple[Grid, ...]
    regions: list[str]


def page(reports: Reports) -> str:
    """The whole document."""
    environment = Environment(
        loader=PackageLoader("kernelsmith.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: clean(value) if isinstance(value, str) else value,
    )
    environment.filters["share"] = _share
    template = environment.get_template("report.html")
    rows = [overview_row(report) for report in reports.runs]
    return template.render(head=HEAD, overview=rows, runs=[_section(report) for report in reports.runs]) + "\n"


def _section(report: RunReport) -> _Section:
    evidence = report.evidence
    regions = [region_line(region) for region in report.verified if any(a != b for a, b in region.dims.values())]
    more = [f"and {len(regions) - MOST_REGIONS} more"] if len(regions) > MOST_REGIONS else []
    return _Section(
        name=f"{report.run}: {report.operator} on {report.target}",
        facts=facts(report),
        times=times(report),
        evidence=[*evidence_lines(evidence), *limits_lines(evidence)] if evidence else [],
        grids=grids(evidence) if evidence else (),
        regions=regions[:MOST_REGIONS] + more,
    )


def _share(cell: Cell) -> int:
    """How strongly a cell is coloured, percent: the logarithm of its cases, full at 64."""
    return round(min(100.0, 25 + 75 * math.log2(1 + cell.right) / 6))
