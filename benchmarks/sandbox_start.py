"""How long a confined candidate takes to answer, against a fresh `python -c "import torch, triton"`.

    python benchmarks/sandbox_start.py [--rounds N]

Prints JSON: milliseconds from `spawn` to the child's first frame, alone and eight at once; the same for fresh
processes; their ratios; and the private memory of a waiting child against that of the fresh process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kernelsmith.sandbox.limits import Limits
from kernelsmith.sandbox.zygote import Child, Zygote

ROLES = str(Path(__file__).parents[1] / "tests" / "sandbox" / "roles")
PING = b'{"act": "ping"}'
FRESH = [sys.executable, "-c", "import sys, torch, triton; print('ready', flush=True); sys.stdin.read()"]
AT_ONCE = 8


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


def measure_forks(zygote: Zygote, rounds: int) -> dict[str, float]:
    """Alone, one after another; and each of eight asked for at the same moment."""
    alone, together, private = [], [], []
    for _ in range(rounds):
        elapsed, child = first_frame(zygote)
        alone.append(elapsed)
        private.append(memory(child.pid, "Private_Dirty"))
        child.kill()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in range(max(1, rounds // 4)):
            results = list(pool.map(first_frame, [zygote] * AT_ONCE))
            together.append(max(elapsed for elapsed, _ in results))
            for _, child in results:
                child.kill()
    return {
        "alone_ms": statistics.median(alone),
        "eight_ms": statistics.median(together),
        "private_mib": statistics.median(private),
    }


def measure_fresh() -> dict[str, float]:
    """Best of three alone, after one that warms the page cache; eight at once, once."""
    times, sizes = [], []
    for _ in range(4):
        elapsed, process = fresh_process()
        times.append(elapsed)
        sizes.append(memory(process.pid, "Pss:"))
        process.communicate(b"")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        results = list(pool.map(lambda _: fresh_process(), range(AT_ONCE)))
    for _, process in results:
        process.communicate(b"")
    return {
        "alone_ms": min(times[1:]),
        "eight_ms": max(elapsed for elapsed, _ in results),
        "pss_mib": statistics.median(sizes),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    started = time.perf_counter()
    with Zygote(path=[ROLES]) as zygote:
        warm_up = time.perf_counter() - started
        first_frame(zygote)[1].kill()
        forks = measure_forks(zygote, rounds)
        layers = str(zygote.layers)
    fresh = measure_fresh()
    report = {
        "zygote_warm_up_s": warm_up,
        "fork": forks,
        "fresh": fresh,
        "ratio_alone": fresh["alone_ms"] / forks["alone_ms"],
        "ratio_eight_at_once": fresh["eight_ms"] / forks["eight_ms"],
        "ratio_memory": fresh["pss_mib"] / forks["private_mib"],
        "layers": layers,
    }
    print(json.dumps(report, indent=2, default=str))


if __name__ == "__main__":
    main()
