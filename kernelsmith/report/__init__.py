"""Reports: what the store knows of runs, as a table, Markdown, JSON, CSV or a page. Read-only; no torch, no device.

Called by the `report` and `runs` commands.
"""

from __future__ import annotations

from collections.abc import Callable

from kernelsmith.errors import UsageError
from kernelsmith.records import Reports
from kernelsmith.report.collect import summarise
from kernelsmith.report.text import csv_text, markdown_page, plain

__all__ = ["render", "summarise"]


def _page(reports: Reports) -> str:
    from kernelsmith.report.html import page

    return page(reports)


_FORMATS: dict[str, Callable[[Reports], str]] = {
    "table": plain,
    "md": markdown_page,
    "csv": csv_text,
    "html": _page,
    "json": lambda reports: reports.model_dump_json() + "\n",
}


def render(reports: Reports, form: str) -> str:
    """`form` is table, md, html, json or csv; the text ends with a newline."""
    if form not in _FORMATS:
        raise UsageError(f"unknown format {form!r}", f"one of: {', '.join(_FORMATS)}")
    return _FORMATS[form](reports)
