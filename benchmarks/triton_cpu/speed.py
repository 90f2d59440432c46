"""How fast are this backend's kernels against PyTorch on the same two cores?

    python -m benchmarks.triton_cpu speed [--only NAME ...] [--threads N] [--seconds S]

One process runs the kernel, eager PyTorch and torch.compile in rounds of random order and prints, per row, the median
speed-up over the better of the two with its 95 % interval. Answers are compared before anything is timed. Needs an
otherwise idle machine (it says so where it is not) and ends with 1 where a row misses its goal.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.triton_cpu.speed_case import Case, Work

MODULES = ("speed_dots", "speed_rows")
MIN_ROUNDS, MAX_ROUNDS = 15, 400
WARM_NS = 12_000_000
"""How long a contestant runs untimed before each sample: its own threads are awake by then, and those of the one before
have stopped spinning. libgomp does so for about 6 ms after a parallel region (measured), and until then a kernel of
ours has one core to itself and the other one to share."""
SEED = 0


@dataclass(frozen=True)
class Row:
    """What one case came to; times in milliseconds, ratios above 1 where the kernel is faster."""

    name: str
    goal: float
    hand_written: float | None
    ok: bool
    ratio: float
    ratio_low: float
    ratio_high: float
    best: str
    ours_ms: float
    eager_ms: float
    compile_ms: float | None
    rounds: int
    largest_error: float


def _clock(call: Callable[[], object]) -> float:
    """Milliseconds of one call, after others of the same kind."""
    begin = time.perf_counter_ns()
    while time.perf_counter_ns() - begin < WARM_NS:
        call()
    begin = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - begin) / 1e6


def _compiled(work: Work) -> Callable[[], object] | None:
    """The eager function through torch.compile, warm; None where the compiler fails, whose reason is printed."""
    import torch

    torch.compiler.reset()
    function = torch.compile(work.eager, dynamic=False)
    try:
        for _ in range(3):
            function(*work.arguments)
    except Exception as error:  # noqa: BLE001 - whatever a compiler raises: said, and eager remains
        print(f"torch.compile failed: {type(error).__name__}: {error}", file=sys.stderr)
        return None
    return lambda: function(*work.arguments)


def compare(work: Work) -> float:
    """The largest difference between the two answers; AssertionError beyond the tolerance."""
    import torch

    answer, truth = work.ours(*work.arguments).double(), work.eager(*work.arguments).double()
    torch.testing.assert_close(answer, truth, rtol=work.rtol, atol=work.atol, equal_nan=True)
    return float((answer - truth).abs().nan_to_num().max())


def measure(case: Case, seconds: float) -> Row:
    """Time one case for about this long."""
    import torch

    from kernelsmith.evaluate.clock import schedule

    torch.manual_seed(SEED)
    work = case.prepare()
    error = compare(work)
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: work.ours(*work.arguments),
        "eager": lambda: work.eager(*work.arguments),
    }
    compiled = _compiled(work)
    if compiled is not None:
        calls["compile"] = compiled
    times: dict[str, list[float]] = {name: [] for name in calls}
    deadline = time.monotonic() + seconds
    for count, order in enumerate(schedule.rounds(list(calls), MAX_ROUNDS, SEED)):
        if count >= MIN_ROUNDS and time.monotonic() > deadline:
            break
        for name in order:
            times[name].append(_clock(calls[name]))
    median = {name: schedule.median_interval(samples, SEED).value for name, samples in times.items()}
    best = min((name for name in times if name != "ours"), key=median.__getitem__)
    ratio = schedule.paired_ratio(times[best], times["ours"], SEED)
    return Row(
        name=case.name,
        goal=case.goal,
        hand_written=case.hand_written,
        ok=ratio.value >= case.goal,
        ratio=ratio.value,
        ratio_low=ratio.low,
        ratio_high=ratio.high,
        best=best,
        ours_ms=median["ours"],
        eager_ms=median["eager"],
        compile_ms=median.get("compile"),
        rounds=len(times["ours"]),
        largest_error=error,
    )


def busy() -> str | None:
    """What else the machine is doing, if that would spoil a measurement."""
    load = os.getloadavg()[0]
    lines = Path("/proc/stat").read_text().splitlines()
    running = next((int(line.split()[1]) for line in lines if line.startswith("procs_running")), 1) - 1
    if load < 0.3 and running == 0:
        return None
    return f"the machine is busy: load {load:.2f}, {running} other runnable processes; the figures may be off"


def show(rows: Sequence[Row]) -> None:
    """A table for people, on standard error."""
    from rich.console import Console
    from rich.table import Table

    table = Table("case", "speed-up", "95 %", "goal", "by hand", "ours ms", "eager ms", "compile ms", "")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.ratio:.2f}x",
            f"{row.ratio_low:.2f}-{row.ratio_high:.2f}",
            f"{row.goal:g}",
            f"{row.hand_written:g}" if row.hand_written is not None else "",
            f"{row.ours_ms:.3g}",
            f"{row.eager_ms:.3g}",
            f"{row.compile_ms:.3g}" if row.compile_ms is not None else "failed",
            "ok" if row.ok else "MISSED",
        )
    Console(stderr=True, width=None if sys.stderr.isatty() else 120).print(table)


def _with_warm_memory() -> None:
    """Start again with an allocator that keeps what is freed: with glibc's defaults every large output of an eager
    operator is mapped anew, and the page faults would be counted against PyTorch."""
    from kernelsmith.evaluate.clock.baseline import ENVIRONMENT

    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        command = [sys.executable, "-m", "benchmarks.triton_cpu", "speed", *sys.argv[2:]]
        os.execve(sys.executable, command, {**os.environ, **ENVIRONMENT})


def cases(patterns: Sequence[str]) -> list[Case]:
    """The cases whose name matches one of the patterns; all without any."""
    import importlib

    found: list[Case] = []
    for name in MODULES:
        found += importlib.import_module(f"benchmarks.triton_cpu.{name}").CASES
    return [case for case in found if not patterns or any(fnmatch.fnmatch(case.name, each) for each in patterns)]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.triton_cpu speed", description=__doc__)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these rows; * and ? match")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10.0, help="about how long to measure each row")
    options = parser.parse_args(arguments)
    _with_warm_memory()
    import torch

    from kernelsmith.triton_cpu.run.pool import set_num_threads

    torch.set_num_threads(options.threads)
    set_num_threads(options.threads)
    chosen = cases(options.only)
    if not chosen:
        parser.error(f"no row is called {' or '.join(options.only)}: there are {', '.join(c.name for c in cases([]))}")
    rows = []
    for case in chosen:
        if warning := busy():
            print(warning, file=sys.stderr)
        with torch.no_grad():
            rows.append(measure(case, options.seconds))
        print(json.dumps(asdict(rows[-1])), flush=True)
    show(rows)
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
