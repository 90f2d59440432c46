"""KernelBench problems tuned offline on the processor: how many end with a correct Triton kernel, and how fast.

    python -m benchmarks.kernelbench --problems KernelBench/KernelBench [--out results.jsonl] [--max-time 60s] [NAME]

The problems are ScalingIntelligence/KernelBench's (MIT), shrunk until their inputs fit into --max-bytes. Resumable:
what is in --out is not run again. A problem without a kernel scores what its user would run: eager, or torch.compile
where that is faster. So does one whose kernel is slower than both, in the figure "as used".
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter

from benchmarks.kernelbench.choice import Problem, chosen, problems
from kernelsmith.base import Frozen

GOALS = {1: 1.2, 2: 1.1}
LIMIT = 900.0
"""Seconds for one problem beyond its own time, so that one that hangs ends."""


class Row(Frozen):
    """One problem's end."""

    name: str
    level: int
    category: str
    correct: bool
    """A Triton kernel passed the full check."""
    eager: float | None = None
    """How many times as fast as eager the kernel is; None without one."""
    best: float | None = None
    """The same against the faster of eager and torch.compile."""
    plain: float
    """torch.compile against eager."""
    outcomes: dict[str, int] = {}
    origin: str = ""
    why: str = ""
    """Where there is no kernel."""

    @property
    def strict(self) -> float:
        """Against eager; without a kernel what the user would run instead."""
        return self.eager if self.eager is not None else max(1.0, self.plain)

    @property
    def used(self) -> float:
        """Against eager, of whatever is fastest."""
        return max(self.strict, 1.0, self.plain)


def run(problem: Problem, max_time: str, max_bytes: int) -> Row:
    with tempfile.TemporaryDirectory() as runs:
        command = [sys.executable, "-m", "kernelsmith", "tune", str(problem.path), "--json", "--runs", runs]
        limits = ["--max-time", max_time, "--max-bytes", str(max_bytes), "--device", "cpu", "--model", "offline"]
        said = _said([*command, *limits])
    facts = functools.partial(Row, name=problem.name, level=problem.level, category=problem.category)
    result = json.loads(said.stdout.splitlines()[-1]) if said.stdout.strip() else {}
    winner = result.get("winner")
    if not winner:
        plain = _said([sys.executable, "-m", "benchmarks.kernelbench.plain", str(problem.path), str(max_bytes)])
        why = result.get("message") or said.stderr.strip()[-200:] or plain.stderr.strip()[-200:]
        ratio = float(plain.stdout) if plain.returncode == 0 else 1.0
        return facts(correct=False, plain=ratio, outcomes=result.get("outcomes", {}), why=why)
    speedup = winner["speedup"]
    eager, compiled = speedup["eager"], speedup.get("compile", speedup["eager"])
    return facts(
        correct=True,
        eager=eager,
        best=min(speedup.values()),
        plain=eager / compiled,
        outcomes=result["outcomes"],
        origin=winner["origin"],
    )


def _said(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    except subprocess.TimeoutExpired as late:
        return subprocess.CompletedProcess(command, 124, "", f"not ended after {late.timeout:g} s")


def summary(rows: Sequence[Row]) -> list[str]:
    """The figures that issue and documentation ask for."""
    lines = []
    for level in sorted({row.level for row in rows}):
        own = [row for row in rows if row.level == level]
        strict, used = _geomean([r.strict for r in own]), _geomean([r.used for r in own])
        done = sum(row.correct for row in own)
        lines.append(
            f"level {level}: {done} of {len(own)} with a correct Triton kernel; geomean against eager {strict:.2f}x, "
            f"as used {used:.2f}x (goal {GOALS[level]}x)"
        )
    done, beat = sum(row.correct for row in rows), sum((row.best or 0) > 1 for row in rows)
    share = done / max(1, len(rows))
    lines.append(f"all: {done} of {len(rows)} correct ({share:.0%}, goal 60%); {beat} beat the best baseline (goal 12)")
    missing = Counter(row.category for row in rows if not row.correct)
    return [*lines, "without a kernel: " + (", ".join(f"{n} {c}" for c, n in missing.most_common()) or "none")]


def _geomean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else 1.0


def line(row: Row) -> str:
    end = f"{row.eager:.2f}x eager, {row.best:.2f}x best" if row.eager and row.best else f"no kernel: {row.why[:80]}"
    return f"{row.name[:60]:60} {row.category:15} {end}; compile {row.plain:.2f}x; {row.outcomes}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="such as 1/19_ReLU; by default the stratified choice")
    parser.add_argument("--problems", type=Path, required=True, help="folder with level1 and level2 in it")
    parser.add_argument("--out", type=Path, help="JSON lines; what is in it is not run again")
    parser.add_argument("--max-time", default="60s")
    parser.add_argument("--max-bytes", type=int, default=64_000_000)
    parser.add_argument("--list", action="store_true", help="print the choice and end")
    asked = parser.parse_args()
    every = [p for level in GOALS for p in problems(asked.problems, level)]
    wanted = [p for level in GOALS for p in chosen(asked.problems, level)]
    if asked.names:
        wanted = [p for p in every if any(p.name.startswith(name) for name in asked.names)]
    if asked.list:
        print("\n".join(f"{p.category:15} {p.name}" for p in wanted))
        return
    read = TypeAdapter(Row).validate_json
    rows = [read(text) for text in asked.out.read_text().splitlines()] if asked.out and asked.out.exists() else []
    for problem in wanted:
        if any(row.name == problem.name for row in rows):
            continue
        row = run(problem, asked.max_time, asked.max_bytes)
        rows.append(row)
        if asked.out:
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(row.model_dump_json() + "\n")
        print(line(row), flush=True)
    print("\n".join(summary(rows)))


if __name__ == "__main__":
    main()
