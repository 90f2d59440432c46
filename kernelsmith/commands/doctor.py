"""`kernelsmith doctor`: is everything here that a run needs, and does the sandbox hold."""

from __future__ import annotations

from typing import Annotated

import typer

from kernelsmith.commands import options
from kernelsmith.commands.common import EXIT_NO, print_lines, print_record


def doctor(
    runs: options.Runs = None,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Run the built-in hostile programs here and say what held (two minutes).")
    ] = False,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Check this machine; each line is ok, warn or fail, with the fix. Exit code 1 if anything fails."""
    from kernelsmith import config
    from kernelsmith.diagnosis import Diagnosis, Health
    from kernelsmith.doctor import examine
    from kernelsmith.text import line

    if sandbox:
        raise typer.Exit(_drill(json=json))
    findings = []
    for finding in examine(config.load({"runs": runs}).runs):
        findings.append(finding)
        if not json:
            fix = f" -> {line(finding.fix, 400)}" if finding.fix else ""
            print_lines([f"{finding.health.value:4}  {finding.name}: {line(finding.detail, 400)}{fix}"])
    if json:
        print_record(Diagnosis(findings=tuple(findings)))
    raise typer.Exit(EXIT_NO if any(finding.health is Health.FAIL for finding in findings) else 0)


def _drill(*, json: bool) -> int:
    """Exit code of the drill; what cannot be run at all raises."""
    from rich.console import Console

    from kernelsmith import doctor
    from kernelsmith.diagnosis import DrillResult
    from kernelsmith.drill.drill import everywhere
    from kernelsmith.render import drill_lines, drill_summary

    if json:
        report = everywhere(lambda result: None)
        print_record(report)
        return 0 if report.held else EXIT_NO
    console = Console(highlight=False, soft_wrap=True, markup=False)

    def tell(result: DrillResult) -> None:
        for text in drill_lines(result):
            console.print(text, style="red" if result.breaches else None)

    for finding in doctor.sandbox():
        console.print(finding.detail)
    report = everywhere(tell)
    for text in drill_summary(report):
        console.print(text, style="bold")
    return 0 if report.held else EXIT_NO
