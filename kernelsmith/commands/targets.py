"""`kernelsmith targets list|show|check`: the devices that kernels can be made for."""

from __future__ import annotations

from typing import Annotated

import typer

from kernelsmith.commands import options
from kernelsmith.commands.common import EXIT_NO, print_lines, print_record

app = typer.Typer(help="List, show and check target files.", no_args_is_help=True)


@app.command("list")
def list_targets(targets: options.Targets = None, json: options.Json = False, verbose: options.Verbose = False) -> None:
    """Every target, the state of its device, and where its file is."""
    from kernelsmith import config
    from kernelsmith import targets as files
    from kernelsmith.devices.state import word_of
    from kernelsmith.records import TargetRow, Targets
    from kernelsmith.render import table

    folder = config.load({"targets": targets}).targets
    rows = []
    for name, path in files.available(folder).items():
        target = files.load(name, folder)
        about = {"device": target.torch_device, "summary": target.summary, "path": str(path)}
        rows.append(TargetRow(name=name, state=word_of(target), **about))
    if json:
        print_record(Targets(targets=tuple(rows)))
    else:
        print_lines(
            table([("target", "device", "state", "what"), *((r.name, r.device, r.state, r.summary) for r in rows)])
        )


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="TARGET")],
    targets: options.Targets = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """One target file as it is read."""
    from kernelsmith import config
    from kernelsmith import targets as files

    target = files.resolve(name, config.load({"targets": targets}).targets)
    print_lines([target.model_dump_json(indent=None if json else 2)])


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TARGET]...", help="By default all.")] = None,
    targets: options.Targets = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Are the target files right? Exit code 1 if one is not."""
    from kernelsmith import config
    from kernelsmith import targets as files
    from kernelsmith.errors import UsageError
    from kernelsmith.records import TargetCheck, TargetChecks

    folder = config.load({"targets": targets}).targets
    found = []
    for name in names or files.available(folder):
        try:
            files.load(name, folder)
            found.append(TargetCheck(name=name, ok=True))
        except UsageError as error:
            found.append(TargetCheck(name=name, ok=False, message=f"{error.message}; {error.hint}"))
    if json:
        print_record(TargetChecks(targets=tuple(found)))
    else:
        print_lines(f"{row.name}: {'ok' if row.ok else row.message}" for row in found)
    raise typer.Exit(0 if all(row.ok for row in found) else EXIT_NO)
