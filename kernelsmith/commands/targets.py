"""`kernelsmith targets list|show|check|install|remove`: the devices that kernels can be made for."""

from __future__ import annotations

from typing import Annotated

import typer

from kernelsmith.commands import options
from kernelsmith.commands.common import EXIT_NO, print_lines, print_record

app = typer.Typer(help="List, show and check target files; install compilers.", no_args_is_help=True)


@app.command("list")
def list_targets(targets: options.Targets = None, json: options.Json = False, verbose: options.Verbose = False) -> None:
    """Every target and how far it can be used here: with the device, with its compiler, or not at all."""
    from kernelsmith import config
    from kernelsmith import targets as files
    from kernelsmith.devices.choose import use_of
    from kernelsmith.records import TargetRow, Targets
    from kernelsmith.targets.page import table

    folder = config.load({"targets": targets}).targets
    paths = files.available(folder)
    found = [(target, use_of(target)) for target in (files.load(name, folder) for name in paths)]
    if json:
        rows = (
            TargetRow(
                name=target.name,
                device=target.torch_device,
                summary=target.summary,
                path=str(paths[target.name]),
                family=target.family,
                state=state,
            )
            for target, state in found
        )
        print_record(Targets(targets=tuple(rows)))
    else:
        print_lines(table(found))


@app.command()
def install(
    name: Annotated[str, typer.Argument(metavar="TARGET")],
    force: Annotated[bool, typer.Option("--force", help="Make it anew.")] = False,
    targets: options.Targets = None,
    verbose: options.Verbose = False,
) -> None:
    """Install the compiler for a device that is not here, in a folder of its own, from the package index."""
    from kernelsmith import config, toolchains
    from kernelsmith import targets as files

    target = files.load(name, config.load({"targets": targets}).targets)
    there = toolchains.installed(target)
    made = toolchains.install(target, force=force)
    done = "installed already" if made == there else f"installed in {made.seconds:.0f} s"
    print_lines([f"{name}: {done}: {made.words}"])


@app.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="TARGET")],
    targets: options.Targets = None,
    verbose: options.Verbose = False,
) -> None:
    """Remove the compiler that `install` made; other targets of the family lose it too."""
    from kernelsmith import config, toolchains
    from kernelsmith import targets as files

    removed = toolchains.remove(files.load(name, config.load({"targets": targets}).targets))
    print_lines([f"{name}: {'removed' if removed else 'no toolchain is installed'}"])
    raise typer.Exit(0 if removed else EXIT_NO)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="TARGET")],
    targets: options.Targets = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Everything known of a target, and where it was read."""
    from kernelsmith import config
    from kernelsmith.devices.choose import choose, use_of
    from kernelsmith.targets.page import page

    target = choose(name, config.load({"targets": targets}).targets)
    if json:
        print_record(target)
    else:
        print_lines(page(target, use_of(target)))


@app.command()
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="[TARGET]...", help="By default all.")] = None,
    targets: options.Targets = None,
    json: options.Json = False,
    verbose: options.Verbose = False,
) -> None:
    """Are the target files right: keys, units, a source of every fact, texts for prompts? Exit code 1 if one is not."""
    from kernelsmith import config
    from kernelsmith import targets as files
    from kernelsmith.errors import UsageError
    from kernelsmith.records import TargetCheck, TargetChecks

    settings = config.load({"targets": targets})
    found = []
    for name in names or files.available(settings.targets):
        try:
            target = files.load(name, settings.targets)
            files.facts(target, settings.prompts)
            found.append(TargetCheck(name=name, ok=True, facts=len(target.sources)))
        except UsageError as error:
            found.append(TargetCheck(name=name, ok=False, message=f"{error.message}; {error.hint}"))
    if json:
        print_record(TargetChecks(targets=tuple(found)))
    else:
        width = max((len(row.name) for row in found), default=0)
        print_lines(
            f"{row.name:{width}}  " + (f"ok, {row.facts} facts with a source" if row.ok else row.message)
            for row in found
        )
    raise typer.Exit(0 if all(row.ok for row in found) else EXIT_NO)
