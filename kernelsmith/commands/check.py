"""`kernelsmith check` and `kernelsmith bench`: the verdict on kernels that exist, without any model."""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelsmith.commands import options
from kernelsmith.commands.common import EXIT_NO, duration, in_bytes, operator_ref, print_lines, print_record, sweep_of
from kernelsmith.errors import UsageError

if TYPE_CHECKING:
    from kernelsmith.config import Settings
    from kernelsmith.model import OperatorRef
    from kernelsmith.outcome import Level
    from kernelsmith.records import KernelReport
    from kernelsmith.space import Sweep
    from kernelsmith.targets import Target

CANDIDATE_SECONDS = 600.0
"""Beyond the time of a full or longer check, how long a candidate may take: its part in work that is begun is ended."""


class CheckLevel(StrEnum):
    QUICK = "quick"
    FULL = "full"
    EXHAUSTIVE = "exhaustive"


def check(
    kernel: Annotated[Path, typer.Argument(metavar="KERNEL", help="Kernel file; - is standard input.")],
    operator: options.Operator,
    level: Annotated[CheckLevel, typer.Option("--level", help="How many cases.")] = CheckLevel.QUICK,
    checked: Annotated[
        bool,
        typer.Option(
            "--checked/--no-checked",
            help="Run a few cases, and one that fails, with builds that find stray accesses, races and the like.",
        ),
    ] = True,
    repeats: options.Repeats = None,
    at_once: options.AtOnce = None,
    max_workspace: options.MaxWorkspace = None,
    also: options.Also = None,
    max_time: options.CheckTime = None,
    sweep: options.Sweep = None,
    device: options.Device = None,
    without_device: options.WithoutDevice = False,
    foreign: options.Foreign = False,
    overrides: options.Overrides = None,
    max_bytes: options.MaxBytes = None,
    tolerance: options.Tolerance = None,
    seed: options.Seed = None,
    unsafe_no_sandbox: options.UnsafeNoSandbox = False,
    targets: options.Targets = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Is this kernel right? Exit code 0: it passed; 1: it did not, and why; 2: could not answer.

    A kernel that passed and does not fit one of the targets of --also, with none of its configurations if it is
    autotuned, is a 1 too; a target that nothing here compiles for is only said.
    """
    from kernelsmith import config
    from kernelsmith.compiled import unusable
    from kernelsmith.outcome import Level

    flags = {"device": device, "tolerance": tolerance, "targets": targets}
    settings = config.load(flags | {"unsafe_no_sandbox": unsafe_no_sandbox or None})
    ref = operator_ref(operator, overrides, max_bytes, settings, foreign=foreign)
    others = _others(also, settings.targets)
    sweeps = tuple(map(sweep_of, sweep or ()))
    asked = _Asked(
        Level(level),
        seed=seed,
        checked=checked,
        sweeps=sweeps,
        repeats=repeats,
        at_once=at_once,
        max_workspace=in_bytes(max_workspace, "--max-workspace"),
        seconds=duration(max_time, "--max-time"),
        others=others,
        without_device=without_device,
    )
    (report,) = _judge((kernel,), ref, settings, asked, quiet=quiet)
    _show((report,), json=json, quiet=quiet)
    fine = report.outcome == "passed" and not unusable(report.also)
    raise typer.Exit(0 if fine else EXIT_NO)


def bench(
    kernels: Annotated[list[Path], typer.Argument(metavar="KERNEL...", help="Kernel files; - is standard input.")],
    operator: options.Operator,
    fail_under: Annotated[
        float | None, typer.Option("--fail-under", metavar="X", help="Exit 1 unless proven at least X times as fast.")
    ] = None,
    device: options.Device = None,
    foreign: options.Foreign = False,
    overrides: options.Overrides = None,
    max_bytes: options.MaxBytes = None,
    tolerance: options.Tolerance = None,
    seed: options.Seed = None,
    unsafe_no_sandbox: options.UnsafeNoSandbox = False,
    targets: options.Targets = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """How fast are these kernels, against eager, torch.compile and the baseline? Each is checked first.

    Exit code 0: all passed (and, with --fail-under, the lower end of the speed-up's interval reaches X); 1: not; 2:
    could not answer.
    """
    from kernelsmith import config
    from kernelsmith.outcome import Level

    flags = {"device": device, "tolerance": tolerance, "targets": targets}
    settings = config.load(flags | {"unsafe_no_sandbox": unsafe_no_sandbox or None})
    ref = operator_ref(operator, overrides, max_bytes, settings, foreign=foreign)
    if fail_under is not None and not 0 < fail_under < math.inf:
        raise UsageError(f"--fail-under {fail_under}: not a speed-up", "give a positive number, such as 1.1")
    reports = _judge(tuple(kernels), ref, settings, _Asked(Level.QUICK, seed=seed, bench=True), quiet=quiet)
    _show(reports, json=json, quiet=quiet)
    raise typer.Exit(0 if all(_fast_enough(report, fail_under) for report in reports) else EXIT_NO)


@dataclass(frozen=True)
class _Asked:
    """What is to be done with each kernel."""

    level: Level
    seed: int | None
    bench: bool = False
    checked: bool = True
    repeats: int | None = None
    at_once: int | None = None
    max_workspace: int | None = None
    sweeps: tuple[Sweep, ...] = ()
    seconds: float | None = None
    """For the check; None: what the level allows."""
    others: tuple[Target, ...] = ()
    """Targets that the kernels are compiled for beside."""
    without_device: bool = False

    @property
    def options(self) -> str:
        """On a command line, what else the verdict depends on."""
        given = {"repeats": self.repeats, "at-once": self.at_once, "max-workspace": self.max_workspace}
        numbers = "".join(f" --{name} {number}" for name, number in given.items() if number is not None)
        numbers += " --without-device" if self.without_device else ""
        return numbers + "".join(f" --sweep {sweep}" for sweep in self.sweeps)


def _others(names: str | None, folder: Path | None) -> tuple[Target, ...]:
    """Raises UsageError for a name that no target has."""
    from kernelsmith.targets import load

    distinct = dict.fromkeys(name.strip() for name in (names or "").split(",") if name.strip())
    if names is not None and not distinct:
        raise UsageError(f"--also {names!r} names no target", "`kernelsmith targets list` shows them")
    return tuple(load(name, folder) for name in distinct)


def _judge(
    kernels: tuple[Path, ...], ref: OperatorRef, settings: Settings, asked: _Asked, *, quiet: bool
) -> tuple[KernelReport, ...]:
    from kernelsmith.live import telling
    from kernelsmith.model import CHECK_SECONDS, Job
    from kernelsmith.offline.fit import chip_of, rows
    from kernelsmith.records import KernelReport
    from kernelsmith.session import executor_for, read_text
    from kernelsmith.summary import check_command
    from kernelsmith.text import clean

    sources = {str(path): read_text(path, "kernel") for path in kernels}
    seed = secrets.randbits(31) if asked.seed is None else asked.seed
    chips = dict.fromkeys(chip for target in asked.others if (chip := chip_of(target)) is not None)
    reports = []
    judged = executor_for(settings.device, settings, ref, without_device=asked.without_device)
    with judged as (target, executor), telling(quiet=quiet) as tell:
        beside = (other for other in asked.others if other.name != target.name)
        others = (target, *beside) if asked.without_device else asked.others
        for path, source in sources.items():
            job = Job(
                operator=ref,
                target=target.name,
                source=source,
                level=asked.level,
                seed=seed,
                bench=asked.bench,
                checked=asked.checked,
                repeats=asked.repeats,
                sweeps=asked.sweeps,
                check_seconds=asked.seconds,
                max_workspace=asked.max_workspace,
                also=tuple(chips),
                every_config=True,
                without_device=asked.without_device,
            )
            if asked.at_once is not None:
                job = job.model_copy(update={"at_once": asked.at_once})
            if asked.level != "quick":
                longest = max(CHECK_SECONDS[asked.level], asked.seconds or 0.0)
                job = job.model_copy(update={"seconds": CANDIDATE_SECONDS + longest})
            evaluation = executor.evaluate(job, tell)
            fits = rows(others, evaluation.builds, passed=evaluation.outcome == "passed" or bool(evaluation.builds))
            report = KernelReport.of(clean(path), evaluation, seed).model_copy(update={"also": fits})
            if report.outcome != "passed":
                again = check_command(path, ref, target.name, settings.targets)
                report = report.model_copy(
                    update={"reproduce": f"{again} --level {asked.level.value} --seed {seed}{asked.options}"}
                )
            reports.append(report)
    return tuple(reports)


def _fast_enough(report: KernelReport, least: float | None) -> bool:
    from kernelsmith.model import Evaluation

    if report.outcome != "passed":
        return False
    if least is None:
        return True
    measured = Evaluation(outcome=report.outcome, stage=report.stage, timings=report.timings)
    return measured.score_ci95 is not None and measured.score_ci95[0] >= least


def _show(reports: tuple[KernelReport, ...], *, json: bool, quiet: bool) -> None:
    from kernelsmith.records import KernelReports
    from kernelsmith.render import fit_lines, kernel_lines

    if json:
        print_record(reports[0] if len(reports) == 1 else KernelReports(kernels=reports))
    elif not quiet:
        for report in reports:
            print_lines(kernel_lines(report))
            print_lines(f"  {text}".rstrip() for text in (*_rests_on(report), *fit_lines(report.also)))


def _rests_on(report: KernelReport) -> list[str]:
    """What the verdict rests on; with the gaps where more than a sample was asked for, and the map where one was
    made in earnest."""
    from kernelsmith.report.evidence import evidence_lines, limits_lines, map_lines

    evidence = report.evidence
    if evidence is None:
        return []
    lines = evidence_lines(evidence)
    if evidence.level == "quick":
        return [*lines, *limits_lines(evidence)] if evidence.swept else lines
    return [*lines, *limits_lines(evidence), *map_lines(evidence)]
