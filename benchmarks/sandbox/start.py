"""How soon a confined candidate answers, compiles and how little it takes, against fresh processes that import torch.

Forks and fresh processes take turns, so that both meet the same load; every figure is a median or made of two.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.sandbox.line import Line
from kernelsmith.sandbox.children.zygote import Child, Zygote
from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.roles import PRELOAD, WARM

ROLES = Path(__file__).parent / "roles"
ROLE = "measured_role"
FRESH = [sys.executable, "-c", "import sys, torch, triton; print('ready', flush=True); sys.stdin.read()"]
COLD = [
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(ROLES)!r}); import {ROLE}; print({ROLE}.compile_one())",
]
AT_ONCE = 8
FORKS_PER_FRESH = 5
BATCHES = 2


@dataclass
class _Figures:
    """Milliseconds and MiB, one entry per trial."""

    alone: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    fresh_last: list[float] = field(default_factory=list)
    private: list[float] = field(default_factory=list)
    fresh_size: list[float] = field(default_factory=list)
    confine: list[float] = field(default_factory=list)
    compile: list[float] = field(default_factory=list)
    cold_compile: list[float] = field(default_factory=list)


def lines(rounds: int) -> list[Line]:
    """Start alone and eight at once, memory, confinement and the first compilation."""
    figures = _Figures()
    _fresh_process()[1].communicate(b"")  # warms the page cache
    with Zygote(preload=(*PRELOAD, ROLE), warm=WARM, path=[str(ROLES)]) as zygote:
        _first_frame(zygote)[1].kill()
        for _ in range(rounds):
            _one_by_one(zygote, figures)
        for _ in range(BATCHES):
            _together(zygote, figures)
    median = {name: statistics.median(values) for name, values in vars(figures).items()}
    return [
        _ratio("start alone", median["fresh"], median["alone"], 80, "ms to a fresh process's first line"),
        _ratio(
            "start, the last of 8 at once", median["fresh_last"], median["last"], 40, "ms of the last fresh process"
        ),
        _ratio("private memory", median["fresh_size"], median["private"], 40, "MiB PSS of a fresh process"),
        Line("confinement", median["confine"], 2, "ms", False, f"median of {len(figures.confine)} forks"),
        _ratio("first compilation", median["cold_compile"], median["compile"], 6, "ms in a cold process"),
    ]


def _ratio(what: str, fresh: float, fork: float, goal: float, words: str) -> Line:
    return Line(what, fresh / fork, goal, "x", True, f"{fresh:.4g} {words}, {fork:.3g} in a confined fork")


def _one_by_one(zygote: Zygote, figures: _Figures) -> None:
    elapsed, process = _fresh_process()
    figures.fresh.append(elapsed)
    figures.fresh_size.append(_memory(process.pid, "Pss:"))
    process.communicate(b"")
    figures.cold_compile.append(float(subprocess.run(COLD, check=True, capture_output=True).stdout))
    for _ in range(FORKS_PER_FRESH):
        elapsed, child = _first_frame(zygote)
        figures.alone.append(elapsed)
        figures.private.append(_memory(child.pid, "Private_Dirty", "Private_Clean"))
        figures.confine.append(_answer(child, "confinement"))
        figures.compile.append(_answer(child, "compile"))
        child.kill()


def _together(zygote: Zygote, figures: _Figures) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        fresh = list(pool.map(lambda _: _fresh_process(), range(AT_ONCE)))
        figures.fresh_last.append(max(elapsed for elapsed, _ in fresh))
        for _, process in fresh:
            process.communicate(b"")
        for _ in range(FORKS_PER_FRESH):
            forks = list(pool.map(_first_frame, [zygote] * AT_ONCE))
            figures.last.append(max(elapsed for elapsed, _ in forks))
            for _, child in forks:
                child.kill()


def _first_frame(zygote: Zygote) -> tuple[float, Child]:
    """Milliseconds from submission to the first answer, and the child, waiting."""
    started = time.perf_counter()
    child = zygote.spawn(ROLE, limits=Limits())
    child.request(b'"ping"', seconds=60)
    return (time.perf_counter() - started) * 1000, child


def _answer(child: Child, question: str) -> float:
    return float(json.loads(child.request(json.dumps(question).encode(), seconds=60).payload))


def _fresh_process() -> tuple[float, subprocess.Popen[bytes]]:
    """The same for a process that imports torch and triton itself, unconfined."""
    started = time.perf_counter()
    process = subprocess.Popen(FRESH, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return (time.perf_counter() - started) * 1000, process


def _memory(pid: int, *names: str) -> float:
    """MiB, from the process's smaps_rollup."""
    found = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in found if line.startswith(names)) / 1024
