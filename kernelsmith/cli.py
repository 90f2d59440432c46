"""The command line: which commands there are. Each lives in commands/; main() is in __main__.py."""

from __future__ import annotations

from typing import Annotated

import typer

from kernelsmith.commands import batch, check, doctor, export, lessons, runs, targets, tune

app = typer.Typer(
    name="kernelsmith",
    help="A model proposes Triton kernels; kernelsmith proves, times and packages them.",
    no_args_is_help=True,
    rich_markup_mode=None,  # rich would double the time to print --help
    pretty_exceptions_enable=False,  # pretty tracebacks show local variables, keys included
    context_settings={"help_option_names": ["-h", "--help"]},
)

Version = Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)]


@app.callback(invoke_without_command=True)
def _top(version: Version = False) -> None:
    if version:
        from kernelsmith.config import program_version

        typer.echo(program_version())
        raise typer.Exit()


for command in (tune.tune, check.check, check.bench, export.export, batch.batch, runs.report, doctor.doctor):
    app.command()(command)
app.add_typer(runs.app, name="runs")
app.add_typer(lessons.app, name="lessons")
app.add_typer(targets.app, name="targets")
