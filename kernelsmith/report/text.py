"""Reports as text: aligned tables for a terminal, Markdown, and CSV with one row per run and workload."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping

from kernelsmith.estimate import Estimate
from kernelsmith.proposal import Budget
from kernelsmith.records import ModelTally, Reports, RunReport
from kernelsmith.render import duration, factor, spending, table
from kernelsmith.report.evidence import evidence_lines, limits_lines, map_lines
from kernelsmith.summary import FOREIGN
from kernelsmith.text import clean, line, markdown

_CELL_CHARS = 1000
HEAD = ("run", "operator", "target", "status", "trials", "best", "time", "spent")


def overview(reports: Reports) -> list[str]:
    """One line per run."""
    if not reports.runs:
        return ["no runs"]
    return table([HEAD, *(overview_row(report) for report in reports.runs)])


def plain(reports: Reports) -> str:
    """The overview, then each run's outcomes and times."""
    lines = overview(reports)
    for report in reports.runs:
        lines += ["", f"{report.run}: {report.operator} on {report.target}, {_ended(report)}"]
        lines += [f"  {name}: {text}" for name, text in facts(report)]
        if report.workloads:
            lines += ["    " + text for text in table([("workload", "ms", "speed-ups", "verdict"), *times(report)])]
        if report.evidence:
            found = (evidence_lines, limits_lines, map_lines)
            lines += [f"  {text}".rstrip() for part in found for text in part(report.evidence)]
    return clean("\n".join(lines) + "\n")


def markdown_page(reports: Reports) -> str:
    """The same for a page: cells are escaped."""
    lines = ["# kernelsmith report", "", *_md_table([HEAD, *(overview_row(report) for report in reports.runs)])]
    for report in reports.runs:
        lines += ["", f"## {_cell(report.run)}", ""]
        lines += [f"- {name}: {_cell(text)}" for name, text in facts(report)]
        if report.evidence:
            lines += [f"- {_cell(t)}" for t in (*evidence_lines(report.evidence), *limits_lines(report.evidence))]
        if report.workloads:
            lines += ["", *_md_table([("workload", "ms", "speed-ups", "verdict"), *times(report)])]
    return "\n".join(lines) + "\n"


_RUN_COLUMNS = ("run", "created", "operator", "target", "status", "stop", "trials")
_BEST_COLUMNS = (
    "passed",
    "winner",
    "score",
    "score_low",
    "score_high",
    "rechecked",
    "seconds",
    "tokens",
    "usd",
    "confinement",
)
_TIME_COLUMNS = ("workload", "median_ms", "baselines", "speedup", "verdict")


def csv_text(reports: Reports) -> str:
    """One row per run and workload of its best kernel; a run without one has a single row."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*_RUN_COLUMNS, *_BEST_COLUMNS, *_TIME_COLUMNS])
    for report in reports.runs:
        low, high = report.score_ci95 or ("", "")
        run = [
            *map(_plain_cell, (report.run, report.created, report.operator, report.target)),
            *(report.status, report.stop, report.trials),
            *(report.outcomes.get("passed", 0), report.winner, report.score, low, high, report.rechecked),
            *(round(report.spent.seconds, 3), report.spent.usage.tokens, report.spent.usage.usd),
            _confinement(report),
        ]
        for best in report.workloads:
            times = [
                _plain_cell(best.workload),
                best.median_ms,
                _pairs(best.baselines),
                _pairs(best.speedup),
                best.verdict,
            ]
            writer.writerow([*run, *times])
        if not report.workloads:
            writer.writerow([*run, *[""] * len(_TIME_COLUMNS)])
    return out.getvalue()


def _plain_cell(text: str) -> str:
    """A spreadsheet must not take text for a formula."""
    shown = line(text, _CELL_CHARS)
    return f"'{shown}" if shown.startswith(("=", "+", "-", "@")) else shown


def overview_row(report: RunReport) -> tuple[str, ...]:
    """One run under HEAD."""
    usd = f"${report.spent.usage.usd:.4f}" if report.spent.usage.usd else "-"
    checked = report.rechecked or (report.score is None and report.estimated is None)
    best = factor(report.score, report.score_ci95) if report.estimated is None else f"est. {report.estimated:.0%}"
    best += "" if checked else " (not re-checked)"
    seconds = duration(report.spent.seconds)
    status = report.status + (" (no sandbox)" if report.unsafe_no_sandbox else "")
    return report.run, report.operator, report.target, status, str(report.trials), best, seconds, usd


def facts(report: RunReport) -> list[tuple[str, str]]:
    """What there is to say of a run beside its times, as name and text."""
    return [
        *([("operator", FOREIGN)] if report.foreign else []),
        ("models", line(", ".join(report.models))),
        *(("", _tally(one)) for one in report.tally if len(report.tally) > 1 or one.usage.tokens),
        ("outcomes", _counts(report.outcomes)),
        ("spent", spending(report.spent, Budget()) + _lost(report)),
        ("confinement", _confinement(report)),
        ("best", _best(report)),
        *(("estimate", _estimate(one)) for one in report.estimates),
        ("folder", report.folder),
    ]


def _ended(report: RunReport) -> str:
    return " ".join(dict.fromkeys(filter(None, [report.status.value, report.stop and report.stop.value])))


def _best(report: RunReport) -> str:
    if report.estimated is not None:
        return f"estimated at {report.estimated:.0%} of the roofline; not measured on {report.target}"
    if report.score is None:
        return "none"
    against = "faster than" if report.faster else "not proven faster than"
    return f"{factor(report.score, report.score_ci95)}, {against} the best baseline"


def _tally(one: ModelTally) -> str:
    """What a model was asked and what came of it, for a line below the models' names."""
    best = "none passed" if one.best is None else f"{one.passed} passed, best {one.best:.3g}"
    paid = f", ${one.usage.usd:.4f}" if one.usage.usd else ""
    worth = f", improvement {one.improvement:.2f}" + (f" ({one.per_dollar:.3g} per dollar)" if one.per_dollar else "")
    return f"{line(one.model)}: {one.calls} calls, {best}{worth}; {one.usage.tokens:,} tokens{paid}"


def _estimate(one: Estimate) -> str:
    """Of a device that is not here."""
    return f"{one.workload}: {one.words}, limited by {one.limit.value}"


def _confinement(report: RunReport) -> str:
    if report.confinement is not None:
        return report.confinement.describe()
    return "not recorded" + (" (--unsafe-no-sandbox was given)" if report.unsafe_no_sandbox else "")


def times(report: RunReport) -> list[tuple[str, str, str, str]]:
    """Workload, milliseconds, speed-ups and verdict of the best kernel."""
    return [(b.workload, f"{b.median_ms:.4g}", _pairs(b.speedup), b.verdict) for b in report.workloads]


def _pairs(values: Mapping[str, float]) -> str:
    return " ".join(f"{name}={value:.4g}" for name, value in values.items())


def _counts(outcomes: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in outcomes.items()) or "none"


def _lost(report: RunReport) -> str:
    if not report.calls_lost:
        return ""
    calls, their = ("call", "its") if report.calls_lost == 1 else ("calls", "their")
    return f" ({report.calls_lost} {calls} lost, charged at {their} reservation)"


def _md_table(rows: list[tuple[str, ...]]) -> list[str]:
    head, *body = rows
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in body]


def _cell(text: str) -> str:
    return markdown(line(text, _CELL_CHARS))
