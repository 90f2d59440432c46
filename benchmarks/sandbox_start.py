"""How long a confined candidate takes to answer, against a fresh `python -c "import torch, triton"`.

    python -m benchmarks.sandbox_start [--rounds N]

Prints JSON: medians of the milliseconds from `spawn` to the child's first frame, alone and for the last of eight at
once; the same for fresh processes; the private memory of a waiting child against that of a fresh process; and ratios.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.zygote import Child, Zygote

ROLES = str(Path(__file__).parents[1] / "tests" / "sandbox" / "roles")
PING = b'{"act": "ping"}'
FRESH = [sys.executable, "-c", "import sys, torch, triton; print('ready', flush=True); sys.stdin.read()"]
WARM = ("torch", "triton", "triton.language")
AT_ONCE = 8
FORKS_PER_FRESH = 5


def first_frame(zygote: Zygote) -> tuple[float, Child]:
    """Milliseconds from submission to the first answer, and the child, waiting."""
    started = time.perf_counter()
    child = zygote.spawn("honest_role", limits=Limits())
    child.request(PING, seconds=60)
    return (time.perf_counter() - started) * 1000, child


def fresh_process() -> tuple[float, subprocess.Popen[bytes]]:
    """The same for a process that imports torch and triton itself, unconfined."""
    started = time.perf_counter()
    process = subprocess.Popen(FRESH, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    return (time.perf_counter() - started) * 1000, process


def memory(pid: int, *names: str) -> float:
    """MiB, from the process's smaps_rollup."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(names)) / 1024


def measure(zygote: Zygote, rounds: int) -> dict[str, dict[str, float]]:
    """Forks and fresh processes by turns, so that both meet the same load; medians."""
    alone, private, fresh, size = [], [], [], []
    for _ in range(rounds):
        elapsed, process = fresh_process()
        fresh.append(elapsed)
        size.append(memory(process.pid, "Pss:"))
        process.communicate(b"")
        for _ in range(FORKS_PER_FRESH):
            elapsed, child = first_frame(zygote)
            alone.append(elapsed)
            private.append(memory(child.pid, "Private_Dirty", "Private_Clean"))
            child.kill()
    together, fresh_together = [], []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(2):
            fresh_results = list(pool.map(lambda _: fresh_process(), range(AT_ONCE)))
            fresh_together.append(max(elapsed for elapsed, _ in fresh_results))
            for _, process in fresh_results:
                process.communicate(b"")
            for _ in range(FORKS_PER_FRESH):
                results = list(pool.map(first_frame, [zygote] * AT_ONCE))
                together.append(max(elapsed for elapsed, _ in results))
                for _, child in results:
                    child.kill()
    median = statistics.median
    return {
        "confined_fork": {"alone_ms": median(alone), "last_of_8_ms": median(together), "private_mib": median(private)},
        "fresh_process": {"alone_ms": median(fresh), "last_of_8_ms": median(fresh_together), "pss_mib": median(size)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    fresh_process()[1].communicate(b"")  # warms the page cache
    with Zygote(preload=(*WARM, "honest_role"), path=[ROLES]) as zygote:
        first_frame(zygote)[1].kill()
        figures = measure(zygote, rounds)
        layers = asdict(zygote.layers)
    fork, fresh = figures["confined_fork"], figures["fresh_process"]
    ratios = {
        "alone": fresh["alone_ms"] / fork["alone_ms"],
        "last_of_8": fresh["last_of_8_ms"] / fork["last_of_8_ms"],
        "memory": fresh["pss_mib"] / fork["private_mib"],
    }
    print(json.dumps({**figures, "ratios": ratios, "layers": layers}, indent=2))


if __name__ == "__main__":
    main()
