"""`kernelsmith tune OP`: search for a faster kernel under a budget, or go on with a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Never

import typer

from kernelsmith.commands import options
from kernelsmith.commands.common import EXIT_ERROR, in_bytes, interruptible, operator_ref, print_lines, sweep_of
from kernelsmith.errors import KernelsmithError, UsageError

if TYPE_CHECKING:
    from kernelsmith.records import TuneResult
    from kernelsmith.session import Listener, Order


FIXED = (
    *("operator", "device", "start", "hint", "seed", "foreign", "tolerance", "sweep", "at_once", "max_workspace"),
    *("without_device", "print_prompt", "estimate"),
)
"""What cannot be given with --resume: a run keeps all but its limits and models."""


LIMITS = ("max_trials", "max_tokens", "max_usd", "max_time", "goal")


def tune(
    operator: Annotated[Path | None, typer.Argument(metavar="OP", help="Operator file or KernelBench problem.")] = None,
    device: options.Device = None,
    without_device: options.WithoutDevice = False,
    model: options.Models = None,
    start: Annotated[Path | None, typer.Option("--start", metavar="KERNEL", help="Begin from this kernel.")] = None,
    hint: Annotated[Path | None, typer.Option("--hint", metavar="FILE", help="Text for every prompt.")] = None,
    max_trials: options.MaxTrials = None,
    max_tokens: options.MaxTokens = None,
    max_usd: options.MaxUsd = None,
    max_time: options.MaxTime = None,
    goal: options.Goal = None,
    sweep: options.Sweep = None,
    at_once: options.AtOnce = None,
    max_workspace: options.MaxWorkspace = None,
    width: options.Width = None,
    seed: options.Seed = None,
    foreign: options.Foreign = False,
    overrides: options.Overrides = None,
    max_bytes: options.MaxBytes = None,
    tolerance: options.Tolerance = None,
    resume: Annotated[str | None, typer.Option("--resume", metavar="RUN", help="Go on with a run.")] = None,
    print_prompt: Annotated[bool, typer.Option("--print-prompt", help="Print the first prompt; ask nobody.")] = False,
    estimate: Annotated[bool, typer.Option("--estimate", help="Say what the run would cost; ask nobody.")] = False,
    unsafe_no_sandbox: options.UnsafeNoSandbox = False,
    runs: options.Runs = None,
    prompts: options.Prompts = None,
    targets: options.Targets = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
) -> None:
    """Search for a faster kernel until the budget stops it.

    Exit code 0: a correct kernel, measured faster than the best baseline (and the goal met), or with --without-device
    one that fits; 1: none; 2: no answer; 130: interrupted, --resume goes on. Without any limit it takes ten minutes.
    """
    given = dict(locals())
    from kernelsmith import config, session

    limits = {name: given[name] for name in LIMITS}
    flags = {"device": device, "model": model, "width": width, "unsafe_no_sandbox": unsafe_no_sandbox or None}
    folders = {"runs": runs, "prompts": prompts, "targets": targets}
    settings = config.load(flags | limits | folders | {"tolerance": tolerance})
    if resume is not None:
        _refuse_with_resume({name: given[name] for name in FIXED})
        changes = session.Changes(limits=config.limits(limits), models=tuple(model or ()), width=width)
        _leave(lambda heard: session.resume(resume, settings, changes, heard), json=json, quiet=quiet)
    if operator is None:
        raise UsageError("no operator file given", "kernelsmith tune OP, or kernelsmith tune --resume RUN")
    order = session.Order(
        operator=operator_ref(operator, overrides, max_bytes, settings, foreign=foreign),
        settings=settings,
        seed=seed,
        start=session.text_of(start, "--start"),
        hint=session.text_of(hint, "--hint"),
        sweeps=tuple(map(sweep_of, sweep or ())),
        at_once=at_once,
        max_workspace=in_bytes(max_workspace, "--max-workspace"),
        without_device=without_device,
    )
    if print_prompt or estimate:
        _tell(order, prompt=print_prompt, json=json)
        return
    _leave(lambda heard: session.start(order, heard), json=json, quiet=quiet)


def _leave(run: Callable[[Listener], TuneResult], *, json: bool, quiet: bool) -> Never:
    """With the run's exit code, once it has ended; why nothing could be asked is an error like any other."""
    from kernelsmith import live, session

    with interruptible() as event, live.view(json=json, quiet=quiet) as view:
        result = run(session.Listener(view, event))
    if result.exit_code == EXIT_ERROR:
        raise KernelsmithError(result.message, f"mend that, then {result.next}")
    raise typer.Exit(result.exit_code)


def _tell(order: Order, *, prompt: bool, json: bool) -> None:
    """The first prompt, or else what a run would cost."""
    from kernelsmith import session
    from kernelsmith.render import quote_lines

    if prompt:
        first = session.first_prompt(order)
        print_lines([first.model_dump_json()] if json else [first.system, "", first.user])
    else:
        told = session.estimate(order)
        print_lines([told.model_dump_json()] if json else quote_lines(told))


def _refuse_with_resume(given: Mapping[str, object]) -> None:
    for name, value in given.items():
        if value not in (None, False):
            flag = "an operator file" if name == "operator" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{flag} cannot be given with --resume", "a run keeps all but its limits and models")
