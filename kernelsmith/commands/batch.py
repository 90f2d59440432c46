"""`kernelsmith batch SUITE.toml`: many operators under budgets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernelsmith.commands import options
from kernelsmith.commands.common import interruptible, print_lines, print_record

if TYPE_CHECKING:
    from kernelsmith.records import BatchItem, TuneRecord


def batch(
    suite: Annotated[Path, typer.Argument(metavar="SUITE.toml", help="List of operators and their terms.")],
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=64, help="Items at once.")] = 1,
    device: options.Device = None,
    model: options.Models = None,
    unsafe_no_sandbox: options.UnsafeNoSandbox = False,
    runs: options.Runs = None,
    prompts: options.Prompts = None,
    targets: options.Targets = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Tune every operator of a suite; go on after failures; end with a summary.

    Exit code 0: every item met its terms; 1: an item fell short or is broken; 2: the suite cannot be read.
    """
    from kernelsmith import config
    from kernelsmith.batch import read_suite, run_suite
    from kernelsmith.render import batch_lines

    flags = {"device": device, "model": model, "runs": runs, "prompts": prompts, "targets": targets}
    items = read_suite(suite, config.load(flags | {"unsafe_no_sandbox": unsafe_no_sandbox or None}))
    done: list[BatchItem] = []

    def emit(item: BatchItem) -> None:
        done.append(item)
        if json:
            print_record(item)

    with interruptible() as interrupted:
        hear = _silent if json or quiet else _say
        result = run_suite(items, jobs=jobs, emit=emit, hear=hear, interrupted=interrupted)
    if json:
        print_record(result)
    else:
        print_lines(batch_lines(done, result))
    raise typer.Exit(result.exit_code)


def _silent(name: str, record: TuneRecord) -> None:
    pass


def _say(name: str, record: TuneRecord) -> None:
    from kernelsmith.render import tune_line
    from kernelsmith.text import clean

    if text := tune_line(record):
        sys.stderr.write(clean(f"[{name}] {text}") + "\n")
