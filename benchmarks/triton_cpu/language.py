"""Triton's own language tests on this backend: how many cases pass, and why the others do not.

    git clone --depth 1 https://github.com/triton-lang/triton-cpu
    python -m benchmarks.triton_cpu language --sources triton-cpu --sample 600 --seed 1

The tests (python/test/unit/language, about 20,000 cases) run as they are, on `--device cpu`; a plug-in adds the names
that the installed Triton lacks. They need scipy. Skips are the tests' own. A case that asks for a GPU or for another
Triton's front end cannot reach its value check and is listed apart, with a reason (`language_rules`). The goal is 97 %
of the cases that reach it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.triton_cpu.language_rules import Kind, Verdict, elsewhere, judge
from benchmarks.triton_cpu.language_worker import Collected, Record, append, collect, load, run

GOAL = 0.97
SKIPS = ("skipped", "xfailed")


@dataclass(frozen=True)
class Row:
    """Outcomes of one file, or of all."""

    file: str
    passed: int
    failed: int
    skipped: int
    gpu: int
    front_end: int

    @property
    def rate(self) -> float | None:
        """Of the cases that reach their value check, the share that pass it; None where none does."""
        reached = self.passed + self.failed
        return self.passed / reached if reached else None

    def as_json(self) -> str:
        names = {"file": self.file, "passed": self.passed, "failed": self.failed, "skipped": self.skipped}
        return json.dumps({**names, "needs_gpu": self.gpu, "not_in_this_triton": self.front_end, "rate": self.rate})


def verdict(record: Record) -> Verdict | None:
    """Why a case does not count as passed; None if it does, or if it skipped itself."""
    if record.outcome in SKIPS or (record.outcome == "passed" and not elsewhere(record.case)):
        return None
    return judge(record.case, record.message)


def tally(file: str, records: Sequence[Record]) -> Row:
    """Counts of one group of records."""
    kinds = Counter(found.kind for found in map(verdict, records) if found is not None)
    passed = sum(record.outcome == "passed" and verdict(record) is None for record in records)
    skipped = sum(record.outcome in SKIPS for record in records)
    return Row(file, passed, kinds[Kind.BACKEND], skipped, kinds[Kind.GPU], kinds[Kind.FRONT_END])


def rows(records: Sequence[Record]) -> list[Row]:
    """One row per file, and their sum."""
    files = sorted({record.file for record in records})
    each = [tally(file, [record for record in records if record.file == file]) for file in files]
    return [*each, tally("total", records)]


def choose(
    cases: Sequence[str],
    *,
    only: str = "",
    per_test: int = 0,
    sample: int = 0,
    seed: int = 0,
    shard: tuple[int, int] = (1, 1),
) -> list[str]:
    """The cases whose names `only` matches: `per_test` of each function, `sample` of all those (0 for either: every
    one), and of those every n-th from the i-th on.

    In the order in which they were collected, so that cases that share kernels stand together.
    """
    chance = random.Random(seed)
    groups: dict[str, list[int]] = {}
    for number, case in enumerate(cases):
        if re.search(only, case):
            groups.setdefault(case.partition("[")[0], []).append(number)
    numbers = [number for group in groups.values() for number in _pick(chance, group, per_test)]
    found = [cases[number] for number in sorted(_pick(chance, sorted(numbers), sample))]
    return found[shard[0] - 1 :: shard[1]]


def _pick(chance: random.Random, numbers: list[int], count: int) -> list[int]:
    return chance.sample(numbers, count) if 0 < count < len(numbers) else numbers


def measure(
    sources: Path, cases: Sequence[str], *, output: Path | None = None, limit_s: float = 120, chunk: int = 500
) -> list[Record]:
    """Runs the cases. With `output`, records are kept there as they come, and those it holds already are not run."""
    known = {record.case: record for record in (load(output) if output is not None else [])}
    records = [known[case] for case in cases if case in known]
    missing = [case for case in cases if case not in known]
    for record in run(sources, missing, limit_s=limit_s, chunk=chunk):
        records.append(record)
        if output is not None:
            append(output, record)
        if sys.stderr.isatty() and len(records) % 20 == 0:
            print(f"\r{len(records)} of {len(cases)}", end="", file=sys.stderr)
    return records


def _show(records: Sequence[Record], broken: dict[str, str], *, failures: bool) -> None:
    console = Console(stderr=True, width=160)
    table = Table("file", "passed", "failed", "skipped", Kind.GPU, Kind.FRONT_END, "rate", "CPU s per case")
    for row in rows(records):
        costs = [record.cpu_seconds for record in records if row.file in (record.file, "total")]
        rate = "" if row.rate is None else f"{100 * row.rate:.1f} %"
        counts = map(str, (row.passed, row.failed, row.skipped, row.gpu, row.front_end))
        table.add_row(row.file, *counts, rate, f"{sum(costs) / max(1, len(costs)):.2f}")
    console.print(table)
    reasons = Counter((found.kind, found.reason) for found in map(verdict, records) if found is not None)
    if reasons:
        listed = Table("cases", "kind", "reason", title="why cases did not pass")
        for (kind, reason), count in sorted(reasons.items(), key=lambda item: (item[0][0], -item[1])):
            listed.add_row(str(count), kind, reason)
        console.print(listed)
    for file, message in broken.items():
        console.print(f"{file} could not be imported: {message.strip().rpartition(chr(10))[2]}", markup=False)
    if failures:
        for record in records:
            found = verdict(record)
            if found is not None and found.kind is Kind.BACKEND:
                console.print(f"{record.case}: {record.message}", markup=False, highlight=False)


def _shard(text: str) -> tuple[int, int]:
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
        raise argparse.ArgumentTypeError(f"i/n with 1 <= i <= n, not {text!r}")
    return int(number), int(count)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="language", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sources", type=Path, required=True, help="a checkout of github.com/triton-lang/triton-cpu")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="run N cases chosen at random")
    parser.add_argument("--per-test", type=int, default=0, metavar="N", help="at most N cases of each test function")
    parser.add_argument("--seed", type=int, default=0, help="of the choice")
    parser.add_argument("--shard", type=_shard, default=(1, 1), metavar="i/n", help="the i-th of n equal parts")
    parser.add_argument("--only", default="", metavar="EXPR", help="cases whose names this regular expression matches")
    parser.add_argument("--output", type=Path, help="keep a line per case here; cases it holds are not run again")
    parser.add_argument("--time-out", type=float, default=120, metavar="S", help="seconds that one case may take")
    parser.add_argument("--chunk", type=int, default=500, help="cases per worker process")
    parser.add_argument("--failures", action="store_true", help="list every failure with its message")
    return parser


def main(arguments: list[str]) -> int:
    given = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # so that workers end with us
    sources = given.sources.resolve()
    collected: Collected = collect(sources)
    cases = choose(
        collected.cases,
        only=given.only,
        per_test=given.per_test,
        sample=given.sample,
        seed=given.seed,
        shard=given.shard,
    )
    records = measure(sources, cases, output=given.output, limit_s=given.time_out, chunk=given.chunk)
    for row in rows(records):
        print(row.as_json())
    _show(records, collected.broken, failures=given.failures)
    rate = rows(records)[-1].rate
    return 0 if rate is not None and rate >= GOAL else 1
