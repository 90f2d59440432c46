"""What checked builds find: faults of memory, races, masked lanes and numbers, and nothing in kernels that have none.

    python -m benchmarks.triton_cpu checked [--cases DIR] [--only WORD ...] [--aids DIR [--aids-triton DIR]] [--no-cost]

Each case is recorded as the sandbox does it and replayed with checked builds in every order of programs; the reports
are printed. With --aids DIR, where `pip install --target DIR ttsem tilelens` has put those packages, each of them is
asked about the same cases, every case in a process of its own. Then: how much slower checked runs are than plain ones,
by turns in one process. Ends with 1 where a verdict is wrong or a checked run takes more than 2.5 plain ones.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from benchmarks.triton_cpu import checked_aids, checked_cases
from benchmarks.triton_cpu.checked_aids import Said
from benchmarks.triton_cpu.checked_cases import Entry
from kernelsmith.faults import Fault


class Against(StrEnum):
    """An answer held against what is so."""

    SAME = "same"
    MISSED = "missed"
    FALSE_ALARM = "false alarm"
    CANNOT = "cannot run"


@dataclass(frozen=True)
class Row:
    """One case: the kind of fault it has, what was found under which order, and what other tools say."""

    case: str
    fault: str | None
    answer: Against
    found: tuple[str, ...]
    """Reports, each after the order of programs that first showed it."""
    others: dict[str, Against]


def judge(entry: Entry, found: Sequence[Fault]) -> Against:
    """Whether the faults found are the one that is there, at a line that is to blame."""
    if entry.fault is None:
        return Against.FALSE_ALARM if found else Against.SAME
    right = [fault for fault in found if fault.kind is entry.fault]
    if entry.places:
        right = [f for f in right if f.location is not None and Path(f.location).name in entry.places]
    return Against.SAME if right else Against.MISSED


def right(row: Row) -> bool:
    """A host function that no plan can hold is refused before its kernels matter, unless they are what is wrong."""
    return row.answer is Against.SAME or (row.answer is Against.CANNOT and row.fault is None)


def judge_other(entry: Entry, said: Said) -> Against:
    """Generous: any report will do where there is a fault, whatever kind and line it names."""
    if said in (Said.CANNOT, Said.TIMEOUT):
        return Against.CANNOT
    if (said is Said.FAULT) == (entry.fault is not None):
        return Against.SAME
    return Against.FALSE_ALARM if said is Said.FAULT else Against.MISSED


def verdicts(entries: Sequence[Entry]) -> list[Row]:
    """What this backend finds in each."""
    from benchmarks.triton_cpu.checked_plans import Recorder, examine

    recorder, rows = Recorder(), []
    for entry in entries:
        reports: dict[str, str] = {}
        try:
            found = examine(entry, recorder)
            for schedule, fault in found:
                reports.setdefault(f"{fault.kind} {fault.location}", f"{schedule.value}: {fault}")
            answer, told = judge(entry, [fault for _, fault in found]), tuple(reports.values())
        except ValueError as error:
            answer, told = Against.CANNOT, (str(error),)
        rows.append(Row(entry.name, entry.fault and entry.fault.value, answer, told, {}))
        print(json.dumps(asdict(rows[-1])), flush=True)
    return rows


def with_aids(rows: Sequence[Row], entries: Sequence[Entry], aids: Path, triton: Path | None) -> list[Row]:
    """The same rows with the answers of the other tools."""
    answers: list[dict[str, Against]] = [{} for _ in rows]
    for tool in checked_aids.TOOLS:
        asked = checked_aids.ask(tool, [entry.reference for entry in entries], aids, triton)
        for number, (reference, said, words) in enumerate(asked):
            answers[number][tool] = judge_other(entries[number], said)
            print(json.dumps({"tool": tool, "case": reference, "said": said, "words": words}), flush=True)
    return [replace(row, others=answer) for row, answer in zip(rows, answers, strict=True)]


def show(rows: Sequence[Row]) -> None:
    """A table for people, on standard error, and a count of answers per tool."""
    from rich.console import Console
    from rich.table import Table

    tools = list(rows[0].others) if rows else []
    table = Table("case", "fault", "checked", *tools, title="answers")
    for row in rows:
        table.add_row(row.case, row.fault or "", row.answer, *(row.others[tool] for tool in tools))
    counts = Table("", *Against, title="counts")
    for tool in ("checked", *tools):
        given = [row.answer if tool == "checked" else row.others[tool] for row in rows]
        counts.add_row(tool, *(str(given.count(answer)) for answer in Against))
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 120)
    console.print(table)
    console.print(counts)


def costs(seconds: float) -> bool:
    """Print what checked runs cost; whether all are cheap enough."""
    from benchmarks.triton_cpu.checked_cost import KERNELS, measure
    from benchmarks.triton_cpu.checked_plans import Recorder
    from benchmarks.triton_cpu.speed import busy

    if warning := busy():
        print(warning, file=sys.stderr)
    recorder, cheap = Recorder(), True
    for kernel in KERNELS:
        cost = measure(kernel, recorder, seconds)
        cheap = cheap and cost.ok
        print(json.dumps(asdict(cost)), flush=True)
        words = f"{cost.kernel}: {cost.ratio:.2f}x [{cost.ratio_low:.2f}, {cost.ratio_high:.2f}]"
        print(f"{words} of {cost.plain_ms:.3g} ms{'' if cost.ok else ', too slow'}", file=sys.stderr)
    return cheap


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks.triton_cpu checked", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=Path, action="append", default=[], metavar="DIR", help="more cases, one a file")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="cases whose name holds one of these")
    parser.add_argument("--aids", type=Path, metavar="DIR", help="where ttsem and tilelens are, to ask them as well")
    parser.add_argument("--aids-triton", type=Path, metavar="DIR", help="where the Triton is that they are made for")
    parser.add_argument("--no-cost", action="store_true", help="verdicts alone")
    parser.add_argument("--seconds", type=float, default=5.0, help="about how long to time each kernel")
    options = parser.parse_args(arguments)
    found = [*checked_cases.own(), *(entry for path in options.cases for entry in checked_cases.folder(path))]
    entries = checked_cases.chosen(found, options.only)
    if not entries:
        parser.error(f"no case's name holds {' or '.join(options.only)}")
    rows = verdicts(entries)
    if options.aids is not None:
        rows = with_aids(rows, entries, options.aids, options.aids_triton)
    show(rows)
    cheap = options.no_cost or costs(options.seconds)
    return 0 if cheap and all(map(right, rows)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
