"""From a brief to a prompt. Words are in `prompts/`, numbers and code come from the brief; this module joins them.

Invariant: nothing that a model or a program wrote is taken as a template or can close the fence around it. The system
part depends on operator, target and hint alone, so that providers can cache it within a run. Called by the loop.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from string import Template

from kernelsmith import library, resources
from kernelsmith.base import Scalar
from kernelsmith.compiled import Build
from kernelsmith.errors import UsageError
from kernelsmith.model import ArgumentInfo, Evaluation, OperatorInfo, Timing, WorkloadChoice
from kernelsmith.outcome import Outcome
from kernelsmith.proposal import Brief, Move, Prompt, TargetFacts, Trial
from kernelsmith.text import code, fence, line, size

MAX_SOURCE_CHARS = 12_000
"""Of one kernel in a prompt; a longer one is cut."""
MAX_LOG_CHARS = 1_500
MAX_MESSAGE_CHARS = 2_000
MAX_CELL_CHARS = 1_000
CLASS_ENTRY = "ModelNew"


def render(brief: Brief, folder: Path | None = None) -> Prompt:
    """The prompt for the next reply. `folder` is that of the `--prompts` flag."""
    page = _Page(folder)
    system = _system(page, brief)
    user = _user(page, brief)
    return Prompt(system=system.strip() + "\n", user=user.strip() + "\n", files=tuple(page.files))


class _Page:
    """Fills template files and remembers which."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.files: dict[str, None] = {}

    def fill(self, name: str, /, **values: object) -> str:
        """One file of `prompts/` with its `$names` replaced by values, which are not looked at again."""
        text = resources.read("prompts", f"{name}.md", self._folder)
        self.files[f"{name}.md"] = None
        try:
            return Template(text).substitute({key: str(value) for key, value in values.items()})
        except (KeyError, ValueError) as error:
            path = resources.find("prompts", f"{name}.md", self._folder)
            known = ", ".join(f"${key}" for key in values)
            raise UsageError(f"{path}: cannot fill {error}", f"it may use {known}; write $$ for a dollar") from error

    def read(self, name: str) -> str:
        """A file of `prompts/` as it is, with a line before it."""
        text = resources.read("prompts", f"{name}.md", self._folder)
        self.files[f"{name}.md"] = None
        return f"\n{text.strip()}\n"

    def examples(self, operator: OperatorInfo) -> str:
        found = library.ranked(operator, self._folder)[:1]
        self.files.update({f"{example.file}": None for example in found})
        return "".join(self.fill("parts/example", source=fence(example.source, "python")) for example in found)


# ---------------------------------------------------------------- the stable part


def _system(page: _Page, brief: Brief) -> str:
    operator = brief.operator
    entry = "parts/entry_class" if operator.name == CLASS_ENTRY else "parts/entry_native"
    examples = "".join(page.fill("parts/example", source=fence(seed.source, "python")) for seed in brief.examples)
    return page.fill(
        "system",
        entry=page.fill(entry, name=line(operator.name), signature=code(operator.signature, MAX_CELL_CHARS)).strip(),
        reference=fence(operator.source, "python"),
        signature=code(operator.signature, MAX_CELL_CHARS),
        arguments=_arguments(page, operator.arguments),
        space=_space(page, operator),
        workloads="\n".join(f"- {line(w.label, MAX_CELL_CHARS)} ({w.weight:g})" for w in operator.workloads),
        target=_target(page, brief.target),
        examples=examples or page.examples(operator),
        knowledge=page.read(f"knowledge/categories/{library.categories(operator)[0]}"),
        lessons=_rows(page, "lessons", brief.lessons),
        hint=page.fill("parts/hint", hint=brief.hint.strip()) if brief.hint.strip() else "",
    )


def _arguments(page: _Page, arguments: tuple[ArgumentInfo, ...]) -> str:
    if not arguments:
        return ""
    rows = [
        (a.name, a.kind + (" | None" if a.optional else ""), a.shape, _list(a.dtypes), _list(a.layouts), a.values)
        for a in arguments
    ]
    return page.fill("parts/arguments", rows=_table(rows))


def _space(page: _Page, operator: OperatorInfo) -> str:
    dims = _list(f"{d.low} <= {d.name} <= {d.high}" for d in operator.dims)
    parts = [page.fill("parts/space", dims=dims) if dims else page.fill("parts/fixed")]
    if operator.relations:
        parts.append(page.fill("parts/relations", relations=_list(operator.relations)))
    if operator.mutates:
        parts.append(page.fill("parts/mutates", names=_list(operator.mutates)))
    return "".join(parts)


def _target(page: _Page, target: TargetFacts) -> str:
    limits = _list(f"{name} {_number(value)}" for name, value in target.limits.items())
    return page.fill(
        "parts/target",
        name=target.name,
        device=target.device,
        summary=target.summary,
        limits=page.fill("parts/limits", limits=limits) if limits else "",
        knobs=page.fill("parts/knobs", knobs=_list(target.useless_knobs)) if target.useless_knobs else "",
        notes=target.notes.strip(),
    )


# ---------------------------------------------------------------- what changes with every trial


def _user(page: _Page, brief: Brief) -> str:
    base = brief.base
    match brief.move:
        case Move.REPAIR if base is not None and base.evaluation is not None:
            return _repair(page, brief, base, base.evaluation)
        case Move.IMPROVE if base is not None:
            aim, best = _aim(page, brief), _bests(page, brief.best)
            changes = {"number": base.number, "best": best, "aim": aim, "failures": _failures(page, brief)}
            return page.fill("improve", **changes, blocks=_blocks(page, base), budget=_budget(page, brief))
        case Move.RECOMBINE if base is not None and brief.partner is not None:
            numbers = {"number": base.number, "other": brief.partner.number}
            shown = {"best": _bests(page, (base,)), "partner": _bests(page, (brief.partner,))}
            return page.fill("recombine", **numbers, **shown, budget=_budget(page, brief))
        case Move.SIMPLIFY if base is not None:
            shown = {"best": _bests(page, (base,)), "blocks": _blocks(page, base)}
            return page.fill("simplify", number=base.number, **shown, budget=_budget(page, brief))
        case Move.PORT if brief.port is not None:
            best = page.fill("parts/against", best=_bests(page, brief.best[-1:])) if brief.best else ""
            source = fence(_cut(brief.port.source, MAX_SOURCE_CHARS), "python")
            origin = line(brief.port.origin, MAX_CELL_CHARS)
            return page.fill("port", origin=origin, source=source, best=best, budget=_budget(page, brief))
    return _draft(page, brief)


def _rows(page: _Page, part: str, rows: Iterable[str]) -> str:
    """A part that is a list; nothing where the list is empty."""
    shown = "\n".join(f"- {line(row, MAX_CELL_CHARS)}" for row in rows)
    return page.fill(f"parts/{part}", rows=shown) if shown else ""


def _draft(page: _Page, brief: Brief) -> str:
    """Also of a brief whose move lacks what it works on."""
    seed = ""
    structures = _rows(page, "structures", brief.structures)
    if not structures and brief.seeds and len(brief.seeds[0].source) <= MAX_SOURCE_CHARS:
        seed = page.fill("parts/seed", source=fence(brief.seeds[0].source, "python"))
    which = "a kernel of another structure" if brief.structures else "the first version"
    parts = {"seed": seed, "structures": structures, "failures": _failures(page, brief)}
    return page.fill("draft", which=which, **parts, budget=_budget(page, brief))


def _failures(page: _Page, brief: Brief) -> str:
    """What earlier calls tried, and why the latest ones failed."""
    attempts = _rows(page, "attempts", brief.attempts)
    newest = brief.failures[-1:]
    items = "".join(_failure(page, trial, source=trial in newest) for trial in brief.failures)
    return attempts + (page.fill("parts/failures", items=items) if items else "")


def _bests(page: _Page, trials: Iterable[Trial]) -> str:
    return "".join(_best(page, trial) for trial in trials)


def _aim(page: _Page, brief: Brief) -> str:
    """The bottleneck to remove, and what holds the other workloads back."""
    aim = brief.aim
    if aim is None:
        return ""
    others = [f"- {line(f.workload)}: {f.bottleneck}; {f.evidence}" for f in brief.findings if f != aim]
    return page.fill(
        "parts/aim",
        workload=line(aim.workload, MAX_CELL_CHARS),
        bottleneck=aim.bottleneck,
        evidence=aim.evidence,
        advice=page.fill(f"bottlenecks/{aim.bottleneck}").strip(),
        others="\n" + page.fill("parts/other_findings", rows="\n".join(others)) if others else "",
    )


def _repair(page: _Page, brief: Brief, trial: Trial, evaluation: Evaluation) -> str:
    if evaluation.outcome is Outcome.NO_CODE:
        reason = _cut(evaluation.message, MAX_MESSAGE_CHARS)
        return page.fill("no_code", number=trial.number, reason=reason, name=brief.operator.name)
    if evaluation.outcome is Outcome.PATCH_FAILED and brief.partner is not None:
        numbers = {"number": trial.number, "other": brief.partner.number}
        meant = fence(_cut(brief.partner.candidate.source, MAX_SOURCE_CHARS), "python")
        return page.fill("unapplied", **numbers, reason=line(evaluation.message, MAX_MESSAGE_CHARS), source=meant)
    source = fence(_cut(trial.candidate.source, MAX_SOURCE_CHARS), "python")
    parts = {"failure": _failure(page, trial), "blocks": _blocks(page, trial)}
    return page.fill("repair", number=trial.number, source=source, **parts)


def _blocks(page: _Page, trial: Trial) -> str:
    """That changes will do, where the model is shown the whole text that they apply to."""
    shown = len(trial.candidate.source) <= MAX_SOURCE_CHARS
    return page.fill("parts/blocks", number=trial.number) if shown else ""


def _failure(page: _Page, trial: Trial, *, source: bool = False) -> str:
    """Why a trial failed; with its source only where that is asked for and is not shown anyway."""
    evaluation = trial.evaluation
    if evaluation is None:
        return ""
    code = trial.candidate.source.strip() if source else ""
    where, wrong, log = evaluation.where, evaluation.mismatch, evaluation.log.strip()
    mismatch = ""
    if wrong is not None:
        numbers = {"got": wrong.got, "expected": wrong.expected, "count": wrong.count, "total": wrong.total}
        index = list(wrong.index)
        mismatch = page.fill("parts/mismatch", output=wrong.output, index=index, bound=f"{wrong.bound:g}", **numbers)
    return page.fill(
        "parts/failure",
        number=trial.number,
        outcome=evaluation.outcome,
        stage=evaluation.stage,
        message=fence(_cut(evaluation.message, MAX_MESSAGE_CHARS)),
        where=page.fill("parts/where", case=line(where.describe(), MAX_CELL_CHARS)) if where else "",
        mismatch=mismatch,
        log=page.fill("parts/log", text=fence(log[-MAX_LOG_CHARS:])) if log else "",
        source=page.fill("parts/failed", source=fence(_cut(code, MAX_SOURCE_CHARS), "python")) if code else "",
    )


def _best(page: _Page, trial: Trial) -> str:
    evaluation = trial.evaluation
    if evaluation is not None and evaluation.estimates:
        return _estimated(page, trial, evaluation)
    if evaluation is None or evaluation.score is None or evaluation.score_ci95 is None:
        return ""
    return page.fill(
        "parts/best",
        number=trial.number,
        score=f"{evaluation.score:.3f}",
        interval=_interval(evaluation.score_ci95),
        rows=_table(_timing(t) for t in evaluation.timings),
        choices=_choices(page, evaluation.choices),
        facts=_facts(page, evaluation),
        source=fence(_cut(trial.candidate.source, MAX_SOURCE_CHARS), "python"),
    )


def _estimated(page: _Page, trial: Trial, evaluation: Evaluation) -> str:
    """A kernel for a device that is not here."""
    rows = (
        (
            one.workload,
            f"{one.microseconds:.4g}",
            f"{one.roofline_share:.0%}",
            one.limit.value,
            _list(f"{limit.value} {us:.3g}" for limit, us in one.parts.items()),
        )
        for one in evaluation.estimates
    )
    return page.fill(
        "parts/estimated",
        number=trial.number,
        target=evaluation.estimates[0].target,
        rows=_table(rows),
        facts=_facts(page, evaluation),
        notes="\n".join(f"- {line(note, MAX_CELL_CHARS)}" for note in evaluation.notes) or "- nothing",
        source=fence(_cut(trial.candidate.source, MAX_SOURCE_CHARS), "python"),
    )


def _facts(page: _Page, evaluation: Evaluation) -> str:
    """What the judge counted of its launches, and what a compiler made of its kernels."""
    rows = [
        (
            counts.workload,
            work.kernel,
            str(work.launches),
            str(work.programs),
            size(work.read_bytes + work.written_bytes),
            size(counts.needed_bytes),
            size(work.asked_bytes),
            size(counts.workspace_bytes),
            _list(f"{count:.3g} {unit}" for unit, count in work.operations.items()),
        )
        for counts in evaluation.counts
        for work in counts.kernels
    ]
    counted = page.fill("parts/facts", rows=_table(rows)) if rows else ""
    built = page.fill("parts/builds", rows=_table(map(_build, evaluation.builds))) if evaluation.builds else ""
    return counted + built


def _build(build: Build) -> tuple[str, ...]:
    taken = build.resources
    facts = taken.model_dump(exclude_defaults=True) if taken is not None else {}
    told = (f"{name.replace('_', ' ')} {value}" for name, value in facts.items() if isinstance(value, int))
    return build.kernel, _list(build.workloads), _list(f"{k}={v}" for k, v in build.options.items()), _list(told)


def _timing(timing: Timing) -> tuple[str, ...]:
    baselines = _list(f"{name} {ms:.4g}" for name, ms in timing.baselines.items())
    speedups = _list(
        f"{name} {ratio:.3f} ({_interval(timing.speedup_ci95[name])})" for name, ratio in timing.speedup.items()
    )
    label, ms, host = timing.workload.label, f"{timing.median_ms:.4g}", f"{timing.host_us:.0f}"
    share = f"{timing.roofline:.0%}" if timing.roofline is not None else "unknown"
    return label, ms, host, share, baselines, speedups, timing.verdict


def _choices(page: _Page, choices: tuple[WorkloadChoice, ...]) -> str:
    rows = [
        f"- {line(c.workload.label)}: {_list(code(f'{k.kernel} {k.text}', MAX_CELL_CHARS) for k in c.configs)}"
        for c in choices
        if c.configs
    ]
    return page.fill("parts/choices", rows="\n".join(rows)) if rows else ""


def _budget(page: _Page, brief: Brief) -> str:
    spent, limits, call = brief.spent, brief.budget, brief.call
    took = ""
    if call is not None:
        numbers = {"tokens": call.tokens, "usd": _number(call.usd), "seconds": round(call.seconds)}
        took = page.fill("parts/call", **numbers).rstrip()
    return page.fill(
        "parts/budget",
        trial=brief.trial,
        trials=_of(spent.trials, limits.max_trials),
        tokens=_of(spent.usage.tokens, limits.max_tokens),
        usd=_of(spent.usage.usd, limits.max_usd),
        seconds=_of(round(spent.seconds), limits.max_seconds),
        call=took,
    )


# ---------------------------------------------------------------- text


def _of(used: int | Decimal, limit: int | float | Decimal | None) -> str:
    """`6 / 20 (14 left)`."""
    if limit is None:
        return _number(used)
    left = limit - used if isinstance(limit, Decimal) else round(limit - float(used))
    return f"{_number(used)} / {_number(limit)} ({_number(max(left, 0))} left)"


def _number(value: Scalar | Decimal) -> str:
    if isinstance(value, Decimal):
        return f"{value:.4f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _interval(bounds: tuple[float, float]) -> str:
    return f"{bounds[0]:.3f} to {bounds[1]:.3f}"


def _list(items: Iterable[str]) -> str:
    return ", ".join(line(item, MAX_CELL_CHARS) for item in items)


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join(
        "| " + " | ".join(line(cell, MAX_CELL_CHARS).replace("|", "\\|") for cell in row) + " |" for row in rows
    )


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "\n[...]"
