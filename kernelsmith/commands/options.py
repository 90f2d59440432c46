"""Flags that several commands share, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

MOST_SEED, MOST_REPEATS = 2**63 - 1, 10_000_000

Device = Annotated[str | None, typer.Option("--device", help="A target's name or a torch device type.")]
WithoutDevice = Annotated[
    bool,
    typer.Option(
        "--without-device",
        help="The device is not here: prove on the CPU, compile for the device, estimate instead of measuring.",
    ),
]
Operator = Annotated[Path, typer.Option("--op", help="Operator file or KernelBench problem.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Replace a module constant of a KernelBench problem."),
]
MaxBytes = Annotated[
    str | None,
    typer.Option(
        "--max-bytes",
        metavar="SIZE",
        help="Shrink a KernelBench problem until its inputs, and its answer, fit (64M, 2G).",
    ),
]
MaxWorkspace = Annotated[
    str | None,
    typer.Option(
        "--max-workspace", metavar="SIZE", help="Refuse kernels that allocate more beside their outputs (1, 500K, 64M)."
    ),
]
Sweep = Annotated[
    list[str] | None,
    typer.Option("--sweep", metavar="DIM=LOW..HIGH[:STEP]", help="Try every size of a dim too, as N=1..4096."),
]
Seed = Annotated[
    int | None, typer.Option("--seed", min=0, max=MOST_SEED, help="Of the inputs; by default another every time.")
]
UnsafeNoSandbox = Annotated[
    bool,
    typer.Option(
        "--unsafe-no-sandbox", help="Run kernels though this machine cannot confine them; every report says so."
    ),
]
Foreign = Annotated[
    bool,
    typer.Option(
        "--foreign", help="The operator file is somebody else's: confine it too. Without this it is yours, and trusted."
    ),
]
Tolerance = Annotated[
    str | None,
    typer.Option(
        "--tolerance",
        metavar="NAME",
        help="Hold answers to this policy, not to the measured bound: torch, kernelbench, ascend or your own.",
    ),
]
Width = Annotated[
    int | None,
    typer.Option(
        "--width", min=1, help="Trials in flight; as many of them as memory and cores allow are judged at once."
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        metavar="SPEC",
        help="offline, openai:MODEL, anthropic:MODEL, command:CMD, replay:PATH; several share the run, "
        "and draft,repair=SPEC keeps one to these moves.",
    ),
]
MaxTrials = Annotated[int | None, typer.Option("--max-trials", min=1, help="Stop after so many proposals.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=1, help="Stop before so many tokens are used.")]
MaxUsd = Annotated[str | None, typer.Option("--max-usd", metavar="DOLLARS", help="Never spend more than this.")]
MaxTime = Annotated[str | None, typer.Option("--max-time", metavar="TIME", help="Stop after 90s, 5m, 1h30m.")]
CheckTime = Annotated[
    str | None,
    typer.Option("--max-time", metavar="TIME", help="Begin no more cases after 90s, 5m, 1h30m; says what is left out."),
]
Repeats = Annotated[
    int | None,
    typer.Option(
        "--repeats",
        metavar="N",
        min=0,
        max=MOST_REPEATS,
        help="Repeat small cases N times, and make calls at once; by default 3,000 times in a full check.",
    ),
]
AtOnce = Annotated[
    int | None,
    typer.Option(
        "--at-once", metavar="N", min=1, max=64, help="Most calls at once that a full check makes; by default 32."
    ),
]
Also = Annotated[
    str | None,
    typer.Option(
        "--also", metavar="T1,T2,...", help="Compile its kernels for these targets too, and say how they fit."
    ),
]
Goal = Annotated[float | None, typer.Option("--goal", help="Stop once a kernel is proven this many times faster.")]
Runs = Annotated[Path | None, typer.Option("--runs", metavar="DIR", help="Folder of the store.")]
Prompts = Annotated[Path | None, typer.Option("--prompts", metavar="DIR", help="Prompt files to use first.")]
Targets = Annotated[Path | None, typer.Option("--targets", metavar="DIR", help="Target files to use first.")]
Json = Annotated[bool, typer.Option("--json", help="Print records as JSON and nothing else on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Tracebacks of unexpected errors.")]
