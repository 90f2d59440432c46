"""How long a kernel takes to compile, to start from the cache, and to launch.

    python -m benchmarks.triton_cpu compile [--rounds N]

A round is two processes that share a fresh cache folder: in the first every kernel's first call compiles it (Triton's
front end, our code generator, the C++ compiler, loading), in the second it finds it compiled. Both have launched
another kernel before, so that what a process does once is not counted. A launch is compared with one whose launcher
does nothing, which is Triton's own share. Prints medians in milliseconds, for launches in microseconds; ends with 1
where a kernel misses a goal.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

COMPILE_GOAL_MS = 250.0
CACHED_GOAL_MS = 5.0
LAUNCH_GOAL_US = 3.0
"""What our launcher may add to Triton's own launch."""
LAUNCHES = 2000


@dataclass(frozen=True)
class Row:
    """One kernel: milliseconds of its first call, compiled and found in the cache."""

    name: str
    compile_ms: float
    cached_ms: float
    ok: bool


@dataclass(frozen=True)
class Launch:
    """Microseconds of one launch of a kernel of one short program, and of a launch that runs nothing."""

    name: str
    launch_us: float
    empty_us: float
    ok: bool


def _calls() -> dict[str, Callable[[], object]]:
    import torch

    from benchmarks.triton_cpu import row_kernels as rows
    from benchmarks.triton_cpu.speed_dots import matmul

    x, w = torch.randn(4, 1000), torch.randn(1000)
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    return {
        "softmax": lambda: rows.softmax(x),
        "layer_norm": lambda: rows.layer_norm(x, w, w),
        "rms_norm": lambda: rows.rms_norm(x, w),
        "swiglu": lambda: rows.swiglu(x, x),
        "cross_entropy": lambda: rows.cross_entropy(x, torch.zeros(4, dtype=torch.int64)),
        "cumsum": lambda: rows.cumsum(x),
        "embedding": lambda: rows.embedding(torch.zeros(4, dtype=torch.int64), x),
        "transpose": lambda: rows.transpose(a),
        "matmul": lambda: matmul(a, b, block=(64, 64, 32)),
    }


def first_calls() -> dict[str, float]:
    """Milliseconds of every kernel's first call in this process."""
    import torch

    from benchmarks.triton_cpu import row_kernels

    row_kernels.add(torch.ones(8), torch.ones(8))
    times = {}
    for name, call in _calls().items():
        started = time.perf_counter()
        call()
        times[name] = (time.perf_counter() - started) * 1e3
    return times


def measure_launch() -> Launch:
    """Interleaved halves of a loop of launches, with our launcher and with one that does nothing."""
    import torch

    from benchmarks.triton_cpu.row_kernels import elementwise_kernel

    x, out = torch.ones(16), torch.ones(16)

    def launch() -> None:
        elementwise_kernel[(1,)](out, x, x, 16, BLOCK=16, KIND="add")

    launch()
    compiled = elementwise_kernel.warmup(out, x, x, 16, BLOCK=16, KIND="add", grid=(1,))
    compiled._init_handles()
    launcher = compiled._run
    times: dict[object, list[float]] = {launcher: [], _nothing: []}
    for _ in range(30):
        for each, samples in times.items():
            compiled._run = each
            started = time.perf_counter()
            for _ in range(LAUNCHES // 30):
                launch()
            samples.append((time.perf_counter() - started) / (LAUNCHES // 30) * 1e6)
    ours, empty = (statistics.median(times[each]) for each in (launcher, _nothing))
    return Launch("launch", round(ours, 2), round(empty, 2), ours - empty <= LAUNCH_GOAL_US)


def _nothing(*arguments: object) -> None:
    """A launcher that runs nothing."""


def _in_a_process(cache: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.triton_cpu.compile", "--first-calls"]
    environment = {**os.environ, "TRITON_CACHE_DIR": cache}
    said = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    times: dict[str, float] = json.loads(said.stdout)
    return times


def measure(rounds: int) -> list[Row]:
    """Medians over the rounds, kernel by kernel."""
    cold, cached = [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(_in_a_process(cache))
            cached.append(_in_a_process(cache))
    rows = []
    for name in cold[0]:
        compiling, starting = (statistics.median(times[name] for times in each) for each in (cold, cached))
        ok = compiling <= COMPILE_GOAL_MS and starting <= CACHED_GOAL_MS
        rows.append(Row(name, round(compiling, 1), round(starting, 2), ok))
    return rows


def show(rows: Sequence[Row], launch: Launch) -> None:
    """A table for people, on standard error."""
    from rich.console import Console
    from rich.table import Table

    table = Table("kernel", "compile ms", "cached ms", "")
    for row in rows:
        table.add_row(row.name, f"{row.compile_ms:g}", f"{row.cached_ms:g}", "ok" if row.ok else "MISSED")
    console = Console(stderr=True)
    console.print(table)
    console.print(f"a launch takes {launch.launch_us} us, of which Triton takes {launch.empty_us}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.triton_cpu compile", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--first-calls", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.first_calls:
        print(json.dumps(first_calls()))
        return 0
    rows, launch = measure(options.rounds), measure_launch()
    for line in (*map(asdict, rows), asdict(launch)):
        print(json.dumps(line), flush=True)
    show(rows, launch)
    return 0 if launch.ok and all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
