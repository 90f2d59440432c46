"""`kernelsmith export RUN --out DIR`: the winner as a package."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kernelsmith.commands import options
from kernelsmith.commands.common import print_lines, print_record
from kernelsmith.errors import UsageError


class Guard(StrEnum):
    SAMPLED = "sampled"
    SWEPT = "swept"


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, or an unambiguous beginning of it.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write; must be empty or absent.")],
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that is not empty.")] = False,
    name: Annotated[str, typer.Option("--name", help="Name of the distribution instead of ks-OPERATOR.")] = "",
    guard: Annotated[Guard, typer.Option("--guard", help="Least proof of a region to be let through.")] = Guard.SAMPLED,
    runs: options.Runs = None,
    targets: options.Targets = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Write the winner of a run as a package that never imports kernelsmith."""
    from kernelsmith import config
    from kernelsmith import export as exporter
    from kernelsmith import targets as target_files
    from kernelsmith.records import Exported
    from kernelsmith.runs import spent
    from kernelsmith.store import Store

    settings = config.load({"runs": runs, "targets": targets})
    with Store.open(settings.runs, create=False) as store:
        found = store.find(run)
        calls, trials = store.calls(found), store.trials(found)
    winner = next((trial for trial in trials if trial.number == found.winner), None)
    if winner is None or winner.evaluation is None:
        hint = f"kernelsmith tune --resume {found.id}" if trials else "tune the operator first"
        raise UsageError(f"run {found.id} has no winner", hint)
    item = exporter.ExportInput(
        operator=found.spec.info,
        candidate=winner.candidate,
        evaluation=winner.evaluation,
        target=target_files.facts(target_files.load(found.spec.target, settings.targets), settings.prompts),
        spent=spent(calls, trials, found.seconds),
        versions=found.spec.versions,
        run=found.id,
        confinement=found.confinement,
    )
    package = exporter.export(item, out, name=name, swept_only=guard is Guard.SWEPT, force=force)
    print_record(Exported(run=found.id, package=str(package))) if json else print_lines([str(package)])
