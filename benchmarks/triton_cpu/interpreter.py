"""How many times faster than Triton's interpreter is the compiled kernel, at the same shape?

    python -m benchmarks.triton_cpu interpreter [--only NAME ...]

The interpreter (TRITON_INTERPRET=1) runs in a process of its own; shapes are small, for it takes milliseconds per
program instance, and the same in both, so that a launch's fixed cost counts against the compiled kernel. The answers of
the two are compared. Ends with 1 if the geometric mean is below the goal, or if two answers differ by more than the
order of a sum explains.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

GOAL = 1000.0
ROUNDS = {"compiled": 30, "interpreted": 2}
TOLERANCE = 1e-4
"""Of the larger of 1 and the answer: float32, with room for sums in another order."""
SEED = 0


@dataclass(frozen=True)
class Row:
    """One kernel: milliseconds of a call, compiled and interpreted, and the largest difference of their answers.

    `right` says that no difference is beyond the tolerance, and that neither answer holds a NaN.
    """

    name: str
    compiled_ms: float
    interpreted_ms: float
    ratio: float
    largest_difference: float
    right: bool


def calls() -> dict[str, Callable[[], torch.Tensor]]:
    """Every kernel with its arguments."""
    import torch

    from benchmarks.triton_cpu import row_kernels as rows
    from benchmarks.triton_cpu.speed_dots import matmul

    torch.manual_seed(SEED)
    x, w, flat = torch.randn(64, 1000), torch.randn(1000), torch.randn(64, 4096)
    logits, target = torch.randn(16, 32000), torch.randint(0, 32000, (16,))
    index, a, b = torch.randint(0, 64, (64,)), torch.randn(128, 128), torch.randn(128, 128)
    return {
        "softmax": lambda: rows.softmax(x),
        "layer_norm": lambda: rows.layer_norm(x, w, w),
        "rms_norm": lambda: rows.rms_norm(x, w),
        "swiglu": lambda: rows.swiglu(flat, flat),
        "cross_entropy": lambda: rows.cross_entropy(logits, target),
        "gelu": lambda: rows.gelu(flat),
        "add": lambda: rows.add(flat, flat),
        "cumsum": lambda: rows.cumsum(x),
        "argmax": lambda: rows.argmax(x),
        "embedding": lambda: rows.embedding(index, x),
        "transpose": lambda: rows.transpose(a),
        "matmul": lambda: matmul(a, b, block=(64, 64, 32)),
    }


def run(kind: str, patterns: Sequence[str], folder: Path) -> dict[str, float]:
    """Milliseconds of each call in this process; its answers go into the folder."""
    import torch

    times = {}
    for name, call in calls().items():
        if patterns and not any(fnmatch.fnmatch(name, each) for each in patterns):
            continue
        call()  # compiles, or imports and translates
        samples = []
        for _ in range(ROUNDS[kind]):
            started = time.perf_counter()
            answer = call()
            samples.append((time.perf_counter() - started) * 1e3)
        torch.save(answer, folder / f"{kind}-{name}.pt")
        times[name] = statistics.median(samples)
    return times


def _in_a_process(kind: str, patterns: Sequence[str], folder: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.triton_cpu.interpreter", "--run", kind, "--folder", str(folder)]
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    if kind == "interpreted":
        environment["TRITON_INTERPRET"] = "1"
    command += ["--only", *patterns] if patterns else []
    said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    times: dict[str, float] = json.loads(said.stdout)
    return times


def measure(patterns: Sequence[str]) -> list[Row]:
    """Time every kernel that a pattern names, all without any, in both ways."""
    import torch

    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compiled, interpreted = (_in_a_process(kind, patterns, folder) for kind in ROUNDS)
        for case, ours in compiled.items():
            answers = [torch.load(folder / f"{kind}-{case}.pt").double() for kind in ROUNDS]
            difference = float((answers[0] - answers[1]).abs().max())
            right = torch.allclose(answers[0], answers[1], rtol=TOLERANCE, atol=TOLERANCE)
            ratio = interpreted[case] / ours
            rows.append(Row(case, round(ours, 4), round(interpreted[case], 1), round(ratio, 1), difference, right))
    return rows


def geometric_mean(rows: Sequence[Row]) -> float:
    return math.exp(statistics.fmean(math.log(row.ratio) for row in rows))


def show(rows: Sequence[Row]) -> None:
    """A table for people, on standard error."""
    from rich.console import Console
    from rich.table import Table

    table = Table("kernel", "compiled ms", "interpreted ms", "times faster", "largest difference")
    for row in rows:
        difference = f"{row.largest_difference:.1e}" + ("" if row.right else " WRONG")
        figures = f"{row.compiled_ms:g}", f"{row.interpreted_ms:g}", f"{row.ratio:.0f}", difference
        table.add_row(row.name, *figures)
    console = Console(stderr=True)
    console.print(table)
    console.print(f"geometric mean: {geometric_mean(rows):.0f} times (goal {GOAL:g})")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.triton_cpu interpreter", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these kernels; * and ? match")
    parser.add_argument("--run", choices=list(ROUNDS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.run:
        print(json.dumps(run(options.run, options.only, options.folder)))
        return 0
    rows = measure(options.only)
    for row in rows:
        print(json.dumps(asdict(row)), flush=True)
    if not rows:
        parser.error(f"no kernel is called {' or '.join(options.only)}")
    show(rows)
    return 0 if geometric_mean(rows) >= GOAL and all(row.right for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
