"""PyTorch's OpInfo operators through TorchInductor's Triton code on this backend, compared with eager PyTorch.

Owns the table; `inductor_worker` runs the samples in processes of their own and `inductor_operators` lists the
operators. Invariant: an operator counts only if every sample of every type was right and at least one Triton kernel of
this backend ran for it; what Inductor hands to PyTorch's own kernels is listed apart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.triton_cpu.inductor_operators import FAMILIES, NOT_COMPARABLE

GOAL = 150
_CHUNK = 40
"""Operators per process: torch starts in seconds, and its compiler keeps what it has seen."""
_SILENCE_S = 300


class Verdict(StrEnum):
    """How an operator ended. `ATEN`: all samples right, but no kernel of this backend ran."""

    RIGHT = "right"
    ATEN = "aten"
    WRONG = "wrong"
    ERROR = "error"
    CRASH = "crash"
    NO_SAMPLES = "no samples"


@dataclass(frozen=True)
class Row:
    """One operator: samples and right ones among them, kernels launched, and the first thing that went wrong."""

    operator: str
    family: str
    verdict: Verdict
    dtypes: tuple[str, ...]
    samples: int
    right: int
    launches: int
    reason: str


@dataclass(frozen=True)
class Plan:
    """What to run: operators, samples per type, symbolic shapes, and where each case is kept."""

    names: tuple[str, ...]
    samples: int
    dynamic: bool
    results: Path | None


def measure(plan: Plan) -> Iterator[Row]:
    """One row per operator, in order, as they end. Operators that `plan.results` already holds are not run again."""
    families = {name: family for family, names in FAMILIES.items() for name in names}
    kept = _read(plan.results)
    for name in plan.names:
        if name in kept:
            yield _row(name, families.get(name, ""), kept[name])
    for name, cases in _run([name for name in plan.names if name not in kept], plan):
        _keep(plan.results, name, cases)
        yield _row(name, families.get(name, ""), cases)


def _row(name: str, family: str, cases: Sequence[dict[str, Any]]) -> Row:
    bad = next((case for case in cases if case["verdict"] != Verdict.RIGHT), None)
    launches = sum(case["launches"] for case in cases)
    if bad is not None:
        verdict = Verdict(bad["verdict"])
    elif not cases:
        verdict = Verdict.NO_SAMPLES
    else:
        verdict = Verdict.RIGHT if launches else Verdict.ATEN
    return Row(
        operator=name,
        family=family,
        verdict=verdict,
        dtypes=tuple(dict.fromkeys(case["dtype"] for case in cases)),
        samples=len(cases),
        right=sum(case["verdict"] == Verdict.RIGHT for case in cases),
        launches=launches,
        reason=f"{bad['dtype']}, sample {bad['sample']}: {bad['reason']}" if bad is not None else "",
    )


def _run(names: Sequence[str], plan: Plan) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Every operator's cases. A process that dies is one operator's crash; the next process goes on after it."""
    left = list(names)
    while left:
        done = 0
        for name, cases in _run_process(left[:_CHUNK], plan):
            done += 1
            yield name, cases
        if done == 0:
            raise SystemExit(f"the worker ended before it ran {left[0]}: its message is above")
        left = left[done:]


def worker_command(plan: Plan) -> list[str]:
    """The command line of a worker, up to the operators' names."""
    mode = "dynamic" if plan.dynamic else "static"
    return [sys.executable, "-m", "benchmarks.triton_cpu.inductor_worker", str(plan.samples), mode]


def _run_process(names: Sequence[str], plan: Plan) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    command = [*worker_command(plan), *names]
    with (
        tempfile.TemporaryDirectory(prefix="kernelsmith-inductor-") as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=_fresh_caches(folder)) as process,
    ):
        current: str | None = None
        cases: list[dict[str, Any]] = []
        for record in _records(process):
            if "start" in record:
                current, cases = record["start"], []
            elif "end" in record:
                yield record["end"], cases
                current = None
            else:
                cases.append(record)
    if current is not None:
        end = f"the process ended with status {process.returncode}, or said nothing for {_SILENCE_S} s"
        yield current, [*cases, {"dtype": "", "sample": len(cases), "verdict": "crash", "launches": 0, "reason": end}]


def _fresh_caches(folder: str) -> dict[str, str]:
    return {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/inductor", "TRITON_CACHE_DIR": f"{folder}/triton"}


def _records(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """What a worker says, line by line; it is ended if it says nothing for too long."""
    if process.stdout is None:
        raise ValueError("the worker's output is not a pipe")
    while True:
        timer = threading.Timer(_SILENCE_S, process.kill)
        timer.start()
        line = process.stdout.readline()
        timer.cancel()
        if not line:
            return
        yield json.loads(line)


def _read(results: Path | None) -> dict[str, list[dict[str, Any]]]:
    if results is None or not results.exists():
        return {}
    records = [json.loads(line) for line in results.read_text().splitlines()]
    return {record["operator"]: record["cases"] for record in records}


def _keep(results: Path | None, name: str, cases: list[dict[str, Any]]) -> None:
    if results is not None:
        with results.open("a") as file:
            file.write(json.dumps({"operator": name, "cases": cases}) + "\n")


def _plan(arguments: Sequence[str]) -> Plan:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.triton_cpu inductor",
        description="PyTorch's OpInfo samples through torch.compile on the Triton CPU backend, compared with eager.",
        epilog="Needs the package expecttest (PyTorch's own test helpers import it): pip install expecttest.",
    )
    parser.add_argument("--ops", help="names in OpInfo's spelling, separated by commas, instead of the declared list")
    parser.add_argument("--limit", type=int, help="only the first N operators")
    parser.add_argument("--samples", type=int, default=2, help="samples per type, spread over OpInfo's (default 2)")
    parser.add_argument("--dynamic", action="store_true", help="compile with symbolic shapes")
    parser.add_argument(
        "--results", type=Path, help="keep each operator's cases in this JSONL file, and resume from it"
    )
    given = parser.parse_args(arguments)
    declared = tuple(name for names in FAMILIES.values() for name in names)
    names = tuple(given.ops.split(",")) if given.ops else declared
    return Plan(names[: given.limit], given.samples, given.dynamic, given.results)


def main(arguments: Sequence[str]) -> int:
    plan = _plan(arguments)
    rows: list[Row] = []
    for row in measure(plan):
        rows.append(row)
        print(json.dumps(asdict(row)), flush=True)
    _show(rows)
    right = sum(row.verdict is Verdict.RIGHT for row in rows)
    bad = [row for row in rows if row.verdict not in (Verdict.RIGHT, Verdict.ATEN, Verdict.NO_SAMPLES)]
    return int(bool(bad) or right < min(GOAL, len(plan.names)))


def _show(rows: Iterable[Row]) -> None:
    """Totals, what did not use this backend, and what went wrong, on standard error."""
    rows = list(rows)
    console = Console(stderr=True)
    table = Table("family", *(verdict.value for verdict in Verdict), title="OpInfo through TorchInductor on the CPU")
    for family in dict.fromkeys(row.family for row in rows):
        mine = [row.verdict for row in rows if row.family == family]
        table.add_row(family or "-", *(str(mine.count(verdict)) for verdict in Verdict))
    table.add_row("all", *(str([row.verdict for row in rows].count(verdict)) for verdict in Verdict), style="bold")
    console.print(table)
    console.print(f"{sum(row.samples for row in rows)} samples, {sum(row.right for row in rows)} right")
    outside = [row.operator for row in rows if row.verdict is Verdict.ATEN]
    if outside:
        console.print(f"PyTorch's own kernels only: {', '.join(outside)}", markup=False)
    for row in rows:
        if row.reason:
            console.print(f"{row.operator}: {row.verdict}: {row.reason.splitlines()[0]}", markup=False)
    for name, why in NOT_COMPARABLE.items():
        console.print(f"not in the list: {name}: {why}", markup=False)
