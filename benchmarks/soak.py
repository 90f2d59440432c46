"""Thousands of candidates in a row through one judge, hostile ones among them: does anything pile up?

    python -m benchmarks.soak [--candidates 5000] [--width 1]

Prints what the judge and its zygote hold as it goes, and what they hold more of at the end than after the first part of
the run: descriptors, threads, processes, files, mounts, namespaces, arenas, memory. Exit code 1 if anything does, or if
a verdict was not what it had to be.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from kernelsmith.drill import catalog
from kernelsmith.drill.deceive import TARGET, Court
from kernelsmith.evaluate.room.room import Room
from kernelsmith.outcome import Outcome
from kernelsmith.sandbox import usage

SAMPLES = 40
"""Looks at what is held, over the whole run; those of its second quarter are compared with those of its last."""
BYTES_PER_CANDIDATE = 8 << 10
"""Growth of resident memory that is no leak: a fortieth of what one small leaked result would take."""
RIGHT, WRONG = catalog.honest(), catalog.honest(right=False)
HOST = f"def {catalog.ENTRY}(x):\n    {{}}\n"
KINDS: tuple[tuple[str, frozenset[Outcome], bool], ...] = (
    (RIGHT, frozenset({Outcome.PASSED}), True),
    (WRONG, frozenset({Outcome.WRONG_VALUES}), True),
    (RIGHT.replace("value * value", "value * valu"), frozenset({Outcome.COMPILE_ERROR}), True),
    (RIGHT + HOST.format("return honest(x) + 1"), frozenset({Outcome.NOT_IN_PLAN}), True),
    (RIGHT + HOST.format("import os; os._exit(0)"), frozenset({Outcome.CRASHED}), False),
    (RIGHT + HOST.format("import os; [os.fork() for _ in range(4)]; os.abort()"), frozenset({Outcome.CRASHED}), False),
    (RIGHT + HOST.format("raise ValueError('no')"), frozenset({Outcome.RUNTIME_ERROR}), True),
    (RIGHT + HOST.format("import os; os.write(3, b'x' * 99); return x"), frozenset({Outcome.SANDBOX_VIOLATION}), False),
    (RIGHT + HOST.format("[print('x' * 4096) for _ in range(9999)]"), frozenset({Outcome.SANDBOX_VIOLATION}), True),
    (
        RIGHT + HOST.format("open(f'{id(x)}', 'w').write('x' * 9999); return honest(x)"),
        frozenset({Outcome.PASSED}),
        False,
    ),
)
"""Source, outcomes that it may have, and whether the screen is on: one candidate of each, over and over."""


@dataclass(frozen=True)
class Held:
    """What is held at a moment when nothing is being judged."""

    descriptors: int
    arenas: int
    threads: int
    processes: int
    files: int
    mounts: int
    namespaces: int
    judge_bytes: int
    zygote_bytes: int


def held(room: Room, folder: Path) -> Held:
    below = usage.descendants(room.zygote.pid)
    targets = list(_links("/proc/self/fd"))
    namespaces = {target for pid in _numbers() for target in _links(f"/proc/{pid}/ns")}
    return Held(
        descriptors=len(targets),
        arenas=sum("memfd" in target for target in targets),
        threads=threading.active_count(),
        processes=len(below),
        files=sum(len(files) for _, _, files in os.walk(folder)),
        mounts=len(Path("/proc/self/mountinfo").read_text().splitlines()),
        namespaces=len(namespaces),
        judge_bytes=_memory([os.getpid()]),
        zygote_bytes=_memory(below),
    )


def _numbers() -> list[int]:
    """The judge and what it started."""
    return [os.getpid(), *usage.descendants(os.getpid())]


def _links(folder: str) -> Iterator[str]:
    """Where the links in a folder of /proc lead."""
    with contextlib.suppress(OSError):  # the process ended meanwhile
        for path in Path(folder).iterdir():
            with contextlib.suppress(OSError):  # the descriptor of this very look
                yield str(path.readlink())


def _memory(pids: list[int]) -> int:
    """Bytes that the processes have to themselves."""
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) << 10


def leaks(samples: list[Held], candidates: int) -> dict[str, float]:
    """What there is more of in the last quarter of the run than in its second one."""
    quarter = max(1, len(samples) // 4)
    early, late = samples[quarter : 2 * quarter], samples[-quarter:]
    grown = {}
    for name in asdict(samples[0]):
        before, after = (statistics.median(getattr(one, name) for one in part) for part in (early, late))
        allowed = BYTES_PER_CANDIDATE * candidates / 2 if name.endswith("_bytes") else 0
        if after - before > allowed:
            grown[name] = after - before
    return grown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--candidates", type=int, default=5000)
    parser.add_argument("--width", type=int, default=1)
    arguments = parser.parse_args()
    each = max(1, arguments.candidates // SAMPLES)
    samples: list[Held] = []
    mistaken: list[str] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as elsewhere:
        os.environ.update(XDG_RUNTIME_DIR=elsewhere, TORCHINDUCTOR_CACHE_DIR=elsewhere, KERNELSMITH_CACHE_DIR=elsewhere)
        tempfile.tempdir = name  # what the judge leaves is found here
        room = Room(TARGET)
        court = Court(room, Path(elsewhere))

        def judge(number: int) -> None:
            source, expected, screened = KINDS[number % len(KINDS)]
            variant = number % max(1, arguments.candidates // 8)  # of kernels to build, for builds are kept on purpose
            # a float: an integer would be taken for a block size, and the cases around it for more truths to remember
            distinct = source.replace("+ 1.0", f"+ 1.0 + {variant}.0 * 0.0")
            outcome = court.judge(distinct, screened=screened).outcome
            if outcome not in expected:
                mistaken.append(f"candidate {number}: {outcome}, not {', '.join(expected)}")

        try:
            with ThreadPoolExecutor(arguments.width) as pool:
                for begin in range(0, arguments.candidates, each):
                    list(pool.map(judge, range(begin, min(begin + each, arguments.candidates))))
                    samples.append(held(room, Path(name)))
                    record = {
                        "candidates": begin + each,
                        "seconds": round(time.monotonic() - started),
                        **asdict(samples[-1]),
                    }
                    print(json.dumps(record), flush=True)
        finally:
            room.close()
            tempfile.tempdir = None
        left = [path.name for path in Path(name).iterdir()]
    grown = leaks(samples, arguments.candidates)
    print(json.dumps({"leaks": grown, "left behind": left, "mistaken verdicts": mistaken}, indent=2))
    sys.exit(1 if grown or left or mistaken else 0)


if __name__ == "__main__":
    main()
