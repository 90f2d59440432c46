"""How records look to a person: plain text made of records, safe to print whatever a model wrote.

Invariant: no text that a model or a kernel produced reaches a terminal with control characters in it. Used by the
commands and the live view. Rich is imported only where something is drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from kernelsmith.compiled import Fit, Resources
from kernelsmith.diagnosis import DrillReport, DrillResult
from kernelsmith.estimate import Estimate
from kernelsmith.model import Confinement, Timing
from kernelsmith.proposal import Budget, Spent, Usage
from kernelsmith.quote import RunQuote
from kernelsmith.records import (
    BatchItem,
    BatchResult,
    CallEnded,
    CallStarted,
    DeviceGivenUp,
    JudgingStarted,
    JudgingWaits,
    KernelReport,
    Notice,
    TrialJudged,
    TuneRecord,
    TuneResult,
    TuneStarted,
)
from kernelsmith.text import clean, line

if TYPE_CHECKING:
    from rich.console import Console


def error_console() -> Console:
    """For everything that is no data. Rich honours NO_COLOR by itself."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


# ---------------------------------------------------------------- numbers


def factor(score: float | None, interval: tuple[float, float] | None = None) -> str:
    if score is None:
        return "-"
    return f"{score:.2f}x" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")


def duration(seconds: float) -> str:
    whole = int(seconds)
    return f"{seconds:.1f}s" if whole < 10 else f"{whole // 60}m{whole % 60:02d}s" if whole >= 60 else f"{whole}s"


def spending(spent: Spent, budget: Budget) -> str:
    """What is spent, of what: `12/50 trials · 3m20s/10m00s · 41k tokens · $0.31/$2`."""

    def of(used: str, limit: str | None) -> str:
        return used if limit is None else f"{used}/{limit}"

    most = budget.max_seconds
    parts = [
        of(str(spent.trials), None if budget.max_trials is None else str(budget.max_trials)) + " trials",
        of(duration(spent.seconds), None if most is None else duration(most)),
    ]
    tokens, usd = spent.usage.tokens + spent.reserved_tokens, spent.usage.usd + spent.reserved_usd
    if tokens or budget.max_tokens:
        parts.append(of(f"{tokens:,}", f"{budget.max_tokens:,}" if budget.max_tokens else None) + " tokens")
    if usd or budget.max_usd:
        parts.append(of(f"${usd:.4f}", f"${budget.max_usd}" if budget.max_usd else None))
    return " · ".join(parts)


# ---------------------------------------------------------------- the loop, line by line


def tune_line(record: TuneRecord) -> str | None:
    """One plain line per record worth one; None for the rest. The result has lines of its own."""
    match record:
        case TuneStarted():
            notes = "".join(f"\nnote: {line(note)}" for note in record.notes)
            if record.unsafe_no_sandbox:
                notes += "\nnote: --unsafe-no-sandbox: kernels run even where nothing confines them"
            verb = "resuming" if record.resumed else "tuning"
            models = ", ".join(record.models)
            return f"run {record.run}: {verb} {record.operator} on {record.target} with {line(models)}{notes}"
        case TrialJudged():
            return judged_line(record)
        case CallEnded() if record.status in ("failed", "lost"):
            return f"trial {record.trial}: call {record.status}: {line(record.message, 300)}"
        case DeviceGivenUp():
            return f"device: {line(record.mark.words, 400)}"
        case Notice():
            return f"note: {line(record.message, 400)}"
        case JudgingWaits() if record.why:
            return f"trial {record.trial} {record.why}"
        case CallEnded() | CallStarted() | JudgingStarted() | JudgingWaits() | TuneResult():
            return None


def standing(record: TrialJudged) -> str:
    """How good a passed kernel is: measured, or estimated where the device is not here."""
    if record.estimated is not None:
        return f"estimated at {record.estimated:.0%} of the roofline"
    return factor(record.score, record.score_ci95)


def judged_line(record: TrialJudged) -> str:
    head = f"trial {record.trial} ({line(record.origin, 40)}): {record.outcome}"
    head += ", full check" if record.level == "full" else ", measured again" if record.again else ""
    if record.score is not None or record.estimated is not None:
        head += f", {standing(record)}" + (", best so far" if record.best else "")
    if record.repeats:
        head += f" (the same program as trial {record.repeats})"
    elif record.message:
        head += f": {line(record.message)}"
    return head


def result_lines(result: TuneResult) -> list[str]:
    """The last words of a run: kernel, speed-ups per workload, why it stopped, what next."""
    lines = [f"run {result.run}: stopped ({result.stop.value}) after {spending(result.spent, result.budget)}"]
    if result.message:
        lines.append(line(result.message, 400))
    if result.outcomes:
        lines.append("outcomes: " + ", ".join(f"{count} {name}" for name, count in result.outcomes.items()))
    winner = result.winner
    if winner is None:
        lines.append("no correct kernel was measured")
    else:
        kind = "best kernel" if winner.rechecked else "best kernel so far, not re-checked"
        lines.append(f"{kind}: {winner.kernel} (trial {winner.trial}, {line(winner.origin, 60)})")
        lines += [*timing_lines(winner.timings), *estimate_lines(winner.estimates)]
        if not winner.estimates:
            speed = ", ".join(f"{factor(value)} {name}" for name, value in winner.speedup.items())
            against = "faster than" if winner.faster else "not proven faster than"
            lines.append(f"overall: {speed}; {against} the best baseline {factor(winner.score, winner.score_ci95)}")
    lines += confinement_lines(result.confinement)
    if result.goal is not None:
        lines.append(f"goal {factor(result.goal)}: {'met' if result.goal_met else 'not met'}")
    return [*lines, f"next: {result.next}"]


def confinement_lines(confinement: Confinement | None, indent: str = "") -> list[str]:
    """What kept the candidates in, if any ran."""
    return [f"{indent}confinement: {confinement.describe()}"] if confinement else []


def timing_lines(timings: Iterable[Timing]) -> list[str]:
    """One line per workload, one below it per baseline: short enough for a narrow terminal."""
    lines = []
    for timing in timings:
        host = f" + {timing.host_us:.0f} us host"
        lines.append(f"  {timing.workload.label}: {timing.median_ms:.4g} ms{host}, {timing.verdict.value}")
        for name, value in timing.speedup.items():
            ratio = factor(value, timing.speedup_ci95.get(name))
            lines.append(f"      {ratio} {name} ({timing.baselines[name]:.4g} ms)")
    return lines


def estimate_lines(estimates: Sequence[Estimate]) -> list[str]:
    """One line per workload, and below them what was taken for granted: none of it was measured."""
    if not estimates:
        return []
    lines = [f"  estimates for {estimates[0].target}, not measured there:"]
    for one in estimates:
        parts = sorted(one.parts.items(), key=lambda part: -part[1])
        each = ", ".join(f"{limit.value} {us:.3g}" for limit, us in parts[:3])
        lines.append(f"    {one.workload}: {one.words}; limited by {one.limit.value} (us alone: {each})")
    assumed = dict.fromkeys(text for one in estimates for text in one.assumed)
    return lines + [f"    assumed: {line(text, 200)}" for text in assumed]


# ---------------------------------------------------------------- check, bench, batch


def kernel_lines(report: KernelReport) -> list[str]:
    """A verdict for a person."""
    lines = [
        f"{line(report.kernel, 300)}: {report.outcome.value}" + (f" at {report.stage.value}" if report.message else "")
    ]
    if report.message:
        lines += ["  " + text for text in clean(report.message).splitlines()]
    if report.where:
        lines.append(f"  at {line(report.where.describe(), 300)}")
    if report.outcome == "passed":
        lines.append(f"  right in all {report.cases} cases tried: sizes, dtypes, layouts and contents")
    lines += timing_lines(report.timings)
    lines += estimate_lines(report.estimates)
    lines += [f"  note: {line(note, 300)}" for note in report.notes]
    lines += confinement_lines(report.confinement, "  ")
    return lines + ([f"  reproduce: {clean(report.reproduce)}"] if report.reproduce else [])


_FIT_COLUMNS = (
    "target",
    "kernel",
    "given",
    "runs",
    "registers",
    "spills",
    "on chip",
    "occupancy",
    "matrix",
    "compiled in",
)


def fit_lines(fits: Sequence[Fit]) -> list[str]:
    """One table, kernel by target, and below it what is wrong and what to look at, by what is said."""
    told: dict[tuple[str, str], dict[str, None]] = {}
    for fit in fits:
        for text in (*filter(None, [fit.message]), *fit.warnings):
            told.setdefault((fit.kernel, text), {})[fit.target] = None
    known = [fit for fit in fits if fit.kernel]
    lines = [""] if fits else []
    rows = [(*_made(fit), " or ".join(line(text, 60) for text in fit.configs)) for fit in known]
    if rows:
        tuned = any(fit.configs for fit in known)
        lines += table([row if tuned else row[:-1] for row in ((*_FIT_COLUMNS, "configuration"), *rows)])
    for (kernel, text), targets in told.items():
        lines.append(": ".join(filter(None, [", ".join(targets), line(kernel, 60), line(text, 600)])))
    return lines + (["computed from what the compilers made, not measured on these devices"] if known else [])


def _made(fit: Fit) -> tuple[str, ...]:
    runs = "?" if fit.outcome is None else "yes" if not fit.wrong else f"NO: {fit.outcome.value}"
    head = fit.target, line(fit.kernel, 40) or "-", line(" ".join(fit.dtypes), 60) or "-", runs
    taken, residents = fit.resources, fit.occupancy
    if taken is None:
        return *head, *("-" for _ in _FIT_COLUMNS[len(head) :])
    limit = f"/{fit.shared_limit_bytes:,}" if fit.shared_limit_bytes is not None else ""
    on_chip = "-" if taken.shared_bytes is None else f"{taken.shared_bytes:,}{limit} B"
    if taken.unified_buffer_bytes is not None:
        others = (("L1", taken.l1_bytes), ("L0C", taken.l0c_bytes))
        on_chip = " ".join([f"UB {taken.unified_buffer_bytes:,} B", *(f"{n} {b:,} B" for n, b in others if b)])
    return (
        *head,
        _count(taken.registers),
        f"{taken.spill_bytes:,} B" if taken.spill_bytes else "-",
        on_chip,
        f"{residents.share:.0%} ({residents.limiter.value})" if residents else "-",
        _matrix(taken),
        f"{fit.seconds:.1f}s" + (f", SPIR-V {taken.spirv_bytes / 1e3:,.0f} kB" if taken.spirv_bytes else ""),
    )


def _matrix(taken: Resources) -> str:
    used = " ".join(f"{line(name, 40)} x{count}" for name, count in taken.matrix_instructions.items()) or "-"
    return used + (f" (sub-groups of {taken.sub_group})" if taken.sub_group else "")


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def batch_lines(items: Sequence[BatchItem], result: BatchResult) -> list[str]:
    """The summary table, aligned."""
    rows = [("item", "answer", "speed-up", "wanted", "stop", "run")]
    for item in items:
        speed = factor(item.score, item.score_ci95)
        stop = item.stop.value if item.stop else "-"
        rows.append((item.name, "ok" if item.ok else "NO", speed, factor(item.wanted), stop, item.run or "-"))
    lines = table(rows)
    lines += [f"{item.name}: {line(item.message, 300)}" for item in items if item.message]
    lines += [f"{item.name}: {text}" for item in items for text in confinement_lines(item.confinement)]
    return [*lines, f"{result.ok} of {result.items} items are ok; {spending(result.spent, Budget())}"]


# ---------------------------------------------------------------- before a run


def quote_lines(told: RunQuote) -> list[str]:
    """What a run would cost: a row per model, as if it made all calls, and what bounds the whole."""
    rows = [("model", "first call at most", "usual call", "usual calls in this budget", "together")]
    for one in told.models:
        usual = f"{_cost(one.usual)}, {duration(one.usual.seconds)}" + ("" if one.measured else " (assumed)")
        calls = f"none: the first needs {_cost(one.least)}" if one.refused else f"{one.calls:,} ({one.stop})"
        together = f"{one.total_tokens:,} tokens, ${one.total_usd:.2f}" if one.total_tokens else "nothing"
        rows.append((line(one.model, 60), _cost(one.first), usual, calls, together))
    limits = [
        f"{told.most_tokens:,} tokens" if told.most_tokens is not None else "any number of tokens",
        f"${told.most_usd:.4f}" if told.most_usd is not None else "any number of dollars (--max-usd bounds them)",
        duration(told.most_seconds) if told.most_seconds is not None else "any time",
    ]
    rests = f"median of {told.trials_measured}" if told.trials_measured else "assumed"
    unpriced = ", ".join(line(one.model, 60) for one in told.models if not one.priced)
    return [
        f"{line(told.operator)} on {told.target}; nothing was asked, nothing spent",
        f"first prompt: {told.prompt_bytes:,} bytes, about {told.prompt_tokens:,} tokens",
        *table(rows),
        f"judging a kernel: {duration(told.trial_seconds)} ({rests})",
        f"at most: {', '.join(limits)}",
        *([f"the price is not known and counts as nothing: {unpriced}"] if unpriced else []),
    ]


def _cost(usage: Usage) -> str:
    return f"{usage.tokens:,} tokens, ${usage.usd:.4f}" if usage.tokens else "nothing"


# ---------------------------------------------------------------- the drill


def drill_lines(result: DrillResult) -> list[str]:
    """One hostile program, and below it what did not hold."""
    held = "NOT HELD" if result.breaches else "held"
    head = f"{held:8}  {result.mode:23}  {result.name:26}  {line(result.about, 110)} [{result.ended}]"
    return [head, *(f"          {breach.fault.value}: {line(breach.what, 300)}" for breach in result.breaches)]


def drill_summary(report: DrillReport) -> list[str]:
    """By mode: how many programs, how many of them held."""
    lines = []
    for mode in dict.fromkeys(result.mode for result in report.results):
        results = [result for result in report.results if result.mode == mode]
        held = sum(not result.breaches for result in results)
        lines.append(f"{mode}: {held} of {len(results)} held, in {duration(sum(result.seconds for result in results))}")
    return [*lines, *(f"{what}: not run here: {line(why, 300)}" for what, why in report.not_run.items())]


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as their widest cell."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
