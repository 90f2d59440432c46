"""How near does numeric search come to the best configuration with a tenth of the measurements?

    python -m benchmarks.numeric [--times FILE] [--seeds 10] [--kernel-tuner] [--measure-only]

Every configuration of every space (`spaces`) is measured once, the fastest of several runs, and kept in FILE (JSON
lines; what is there is not measured again). Then each way to search is given a tenth of the measurements and reads
them from there: ours, which is the search that `offline` makes (kernelsmith.propose.surrogate), random search, and with
--kernel-tuner one strategy of kernel_tuner, a development aid that has to be installed beside. The figure is the
median over the seeds of the time that was found over the best there is.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.numeric.spaces import SPACES, Kernels, Values
from kernelsmith.propose.numeric import MAX_NEW
from kernelsmith.propose.surrogate import Point, Space, suggest

RUNS, SECONDS = 7, 0.05
"""Of one configuration: at most so many, and no more once they took so long."""
SHARE = 0.1
BATCH = MAX_NEW
"""As the product lists them."""
LISTED = 6
"""In a kernel's own list: prompts ask for 4 to 12 that differ."""
Times = Mapping[Point, float]


def measured(kernels: Kernels, file: Path) -> Times:
    """Milliseconds of every configuration, measured now or before."""
    known: dict[Point, float] = {}
    if file.exists():
        for text in file.read_text().splitlines():
            row = json.loads(text)
            if row["space"] == kernels.name:
                known[tuple(row["point"])] = row["ms"]
    missing = [(p, v) for v in kernels.all() if (p := point(kernels, v)) not in known]
    random.Random(0).shuffle(missing)  # so that what the machine does meanwhile favours no corner
    launch = kernels.prepare() if missing else None
    with file.open("a", encoding="utf-8") as out:
        for where, values in missing:
            assert launch is not None
            known[where] = _milliseconds(launch, values)
            out.write(json.dumps({"space": kernels.name, "point": where, "ms": known[where]}) + "\n")
    return known


def point(kernels: Kernels, values: Values) -> Point:
    return tuple(axis.index(values[name]) for name, axis in kernels.values.items())


def _milliseconds(launch: Callable[[Values], Any], values: Values) -> float:
    launch(values)  # compiles
    taken: list[float] = []
    while len(taken) < 3 or (len(taken) < RUNS and sum(taken) < SECONDS):
        begin = time.perf_counter()
        launch(values)
        taken.append(time.perf_counter() - begin)
    return 1e3 * min(taken)


def ours(kernels: Kernels, times: Times, count: int, seed: int) -> float:
    """Begins with a few configurations that differ, as a kernel's author lists some, then asks the surrogate."""
    space = Space(tuple(map(len, kernels.values.values())), times.__contains__)
    first = random.Random(seed).choice(sorted(times))
    listed = [first, *suggest(space, {}, LISTED - 1, seed, unheard=[first])]
    known: dict[Point, float | None] = {where: times[where] for where in listed}
    while len(known) < count and (asked := suggest(space, known, min(BATCH, count - len(known)), seed)):
        known |= {where: times[where] for where in asked}
    return min(ms for ms in known.values() if ms is not None)


def at_random(kernels: Kernels, times: Times, count: int, seed: int) -> float:
    return min(times[where] for where in random.Random(seed).sample(sorted(times), count))


WAYS: dict[str, Callable[[Kernels, Times, int, int], float]] = {"ours": ours, "random": at_random}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=Path, default=Path("numeric-times.jsonl"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--kernel-tuner", action="store_true")
    parser.add_argument("--measure-only", action="store_true")
    asked = parser.parse_args()
    ways = dict(WAYS)
    if asked.kernel_tuner:
        from benchmarks.numeric.aid import STRATEGY, kernel_tuner

        ways[f"kernel_tuner {STRATEGY}"] = kernel_tuner
    print(f"{'space':18} {'configs':>7} {'tenth':>6} {'best ms':>8}  " + "  ".join(f"{way:>12}" for way in ways))
    medians: dict[str, list[float]] = {way: [] for way in ways}
    for kernels in SPACES:
        times = measured(kernels, asked.times)
        count, best = round(SHARE * len(times)), min(times.values())
        cells = []
        for way, search in () if asked.measure_only else ways.items():
            over = statistics.median(search(kernels, times, count, seed) / best for seed in range(asked.seeds))
            medians[way].append(over)
            cells.append(f"{over:12.3f}")
        print(f"{kernels.name:18} {len(times):7} {count:6} {best:8.3f}  " + "  ".join(cells), flush=True)
    if not asked.measure_only:
        print("median             " + " " * 24 + "  ".join(f"{statistics.median(m):12.3f}" for m in medians.values()))


if __name__ == "__main__":
    main()
