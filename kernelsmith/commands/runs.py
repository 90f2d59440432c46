"""`kernelsmith runs list|show|path|rm` and `kernelsmith report`: what the store knows. Nothing is judged."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelsmith.commands import options
from kernelsmith.commands.common import EXIT_ERROR, EXIT_NO, print_lines, print_record
from kernelsmith.errors import StoreError, UsageError
from kernelsmith.keys import redact
from kernelsmith.text import line

if TYPE_CHECKING:
    from kernelsmith.store import Store

app = typer.Typer(help="List, show, locate and remove runs.", no_args_is_help=True)
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of a run, or an unambiguous beginning of it.")]


class Format(StrEnum):
    TABLE = "table"
    MD = "md"
    JSON = "json"
    CSV = "csv"
    HTML = "html"


class Status(StrEnum):
    RUNNING = "running"
    KILLED = "killed"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"


def _opened(runs: Path | None) -> Store:
    from kernelsmith import config
    from kernelsmith.store import Store

    return Store.open(config.load({"runs": runs}).runs, create=False)


@contextmanager
def _each_readable() -> Iterator[Callable[[StoreError], None]]:
    """One bad row hides no other run: it is told on stderr, and costs exit code 2 after all else is printed."""
    skipped: list[StoreError] = []

    def skip(error: StoreError) -> None:
        skipped.append(error)
        sys.stderr.write(f"left out: {line(redact(error.message), 400)}\n")

    yield skip
    if skipped:
        raise typer.Exit(EXIT_ERROR)


def report(
    names: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="Runs; by default all.")] = None,
    form: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
    json: options.Json = False,
    runs: options.Runs = None,
    verbose: options.Verbose = False,
) -> None:
    """Runs, outcomes, the best kernel per workload, and what was spent. Needs no device and no torch."""
    from kernelsmith.report import render, summarise

    with _opened(runs) as store, _each_readable() as skip:
        chosen = [store.find(name) for name in names] if names else store.runs(skip)
        reports = summarise(store, chosen, skip)
        sys.stdout.write(render(reports, "json" if json else form.value))


@app.command("list")
def list_runs(
    status: Annotated[Status | None, typer.Option("--status", help="Only these.")] = None,
    json: options.Json = False,
    runs: options.Runs = None,
    verbose: options.Verbose = False,
) -> None:
    """Newest first."""
    from kernelsmith.records import Reports
    from kernelsmith.report import summarise
    from kernelsmith.report.text import overview

    with _opened(runs) as store, _each_readable() as skip:
        reports = summarise(store, store.runs(skip), skip)
        chosen = Reports(runs=tuple(r for r in reports.runs if status is None or r.status.value == status.value))
        print_record(chosen) if json else print_lines(overview(chosen))


@app.command()
def show(name: RunId, json: options.Json = False, runs: options.Runs = None, verbose: options.Verbose = False) -> None:
    """One run: outcomes, times per workload, spend."""
    from kernelsmith.report import render, summarise

    with _opened(runs) as store:
        reports = summarise(store, [store.find(name)])
    sys.stdout.write(render(reports, "json" if json else "table"))


@app.command()
def path(name: RunId, json: options.Json = False, runs: options.Runs = None, verbose: options.Verbose = False) -> None:
    """The run's folder."""
    from kernelsmith.records import RunPath

    with _opened(runs) as store:
        run = store.find(name)
        folder = str(store.folder_of(run).path)
    print_record(RunPath(run=run.id, path=folder)) if json else print_lines([folder])


@app.command("rm")
def remove(
    name: RunId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: options.Json = False,
    runs: options.Runs = None,
    verbose: options.Verbose = False,
) -> None:
    """Delete a run: its rows and its folder."""
    from kernelsmith.records import RunRemoved

    with _opened(runs) as store:
        run = store.find(name)
        if not yes:
            if not sys.stdin.isatty():
                raise UsageError(f"run {run.id} is not removed without being asked", "add --yes")
            yes = typer.confirm(f"Remove run {run.id} and {store.folder_of(run).path}?", err=True)
        if yes:
            store.remove(run)
    print_record(RunRemoved(run=run.id, removed=yes)) if json else print_lines([f"removed {run.id}"] if yes else [])
    raise typer.Exit(0 if yes else EXIT_NO)
