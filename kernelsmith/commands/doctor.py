"""`kernelsmith doctor`: is everything here that a run needs."""

from __future__ import annotations

import typer

from kernelsmith.commands import options
from kernelsmith.commands.common import EXIT_NO, print_lines, print_record


def doctor(runs: options.Runs = None, json: options.Json = False, verbose: options.Verbose = False) -> None:
    """Check this machine; each line is ok, warn or fail, with the fix. Exit code 1 if anything fails."""
    from kernelsmith import config
    from kernelsmith.doctor import examine
    from kernelsmith.records import Diagnosis, Health
    from kernelsmith.text import line

    findings = []
    for finding in examine(config.load({"runs": runs}).runs):
        findings.append(finding)
        if not json:
            fix = f" -> {line(finding.fix, 400)}" if finding.fix else ""
            print_lines([f"{finding.health.value:4}  {finding.name}: {line(finding.detail, 400)}{fix}"])
    if json:
        print_record(Diagnosis(findings=tuple(findings)))
    raise typer.Exit(EXIT_NO if any(finding.health is Health.FAIL for finding in findings) else 0)
