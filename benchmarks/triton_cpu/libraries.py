"""`python -m benchmarks.triton_cpu libraries --sources DIR`: kernels of FlagGems, Liger-Kernel and TritonBench-G.

DIR holds three clones: FlagGems (github.com/FlagOpen/FlagGems), Liger-Kernel (github.com/linkedin/Liger-Kernel) and
TritonBench (github.com/thunlp/TritonBench). Their tests need packages that kernelsmith does not: install them
aside and name the folder, `pip install --target SITE pyyaml sqlalchemy scipy einops transformers` and `--site SITE`.

Two tables. Compile: every distinct @triton.jit function that a library's own tests make Triton compile. Compare:
FlagGems' and Liger-Kernel's operators by their own tests against PyTorch, a sample of each test's cases that holds
all its dtypes; TritonBench's functions on their own inputs against Triton's interpreter. "cuda" means the CPU, and
autotuners try their first configuration only. One child process per file, restarted after a crash or a hang; events
are kept in --results, and a second run goes on where the first one ended. Ends with 0 if at least 90 % of the kernels
compile and at least 150 operators are right.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.triton_cpu.events import NO_VERDICT, Event, Kind, Outcome, append, read

GOAL_COMPILE = 0.9
GOAL_RIGHT = 150
QUIET_LIMIT_S = 300
_WORST_FIRST = list(Outcome)


@dataclass(frozen=True)
class Library:
    """A library: its folder, where its tests are, and how pytest is called there; no tests means TritonBench's way."""

    name: str
    tests: str
    paths: tuple[str, ...]
    options: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


# Left out: tests of a cache or of shapes, and files without a kernel of Triton's (CuTe, cuTile, models, training).
_FLAGGEMS_LEFT_OUT = ("shape_utils", "libentry", "tensor_wrapper")
_LIGER_LEFT_OUT = ("cute", "cutile", "auto_model", "monkey_patch", "trainer", "flex_attention", "mm_int8int2", "utils")
LIBRARIES = (
    Library("FlagGems", "tests/test_*.py", ("src",), ("--mode", "quick", "--ref", "cuda"), _FLAGGEMS_LEFT_OUT),
    Library("Liger-Kernel", "test/transformers/test_*.py", ("src", "."), (), _LIGER_LEFT_OUT),
    Library("TritonBench", "data/TritonBench_G_v1", ("data/TritonBench_G_v1",)),
)


_ENTROPY = "test/transformers/test_cross_entropy.py::test_correctness"
_SMOOTHED = "_with_z_loss_with_other_params_once[0.2--42-sum-False-1e-05-1.0-dtype1-1e-08-1e-06-3-423-32000]"
_BFLOAT16 = (
    "the reference, PyTorch's cross entropy in bfloat16 on the CPU, is 5 % from the float64 result, Liger's 0.4 %"
)
# Cases, by their ids, that are wrong by no fault of this backend, with what was measured.
_EXCUSED = {
    f"{_ENTROPY}[1.0-dtype0-1e-08-0.05-sum-2-4096-32000]": _BFLOAT16,
    f"{_ENTROPY}_with_ignore_index[1.0-dtype0-1e-08-0.05-sum-2-4096-32000-2]": _BFLOAT16,
    f"{_ENTROPY}{_SMOOTHED}": "the reference, PyTorch's smoothed cross entropy on the CPU, is further from float64 "
    "than the tolerance",
    "test/transformers/test_group_norm.py::test_liger_group_norm[dtype0-0.0001-0.0001-16-48-12-8192]": "the reference, "
    "PyTorch's bias gradient in float32 on the CPU, misses float64 by more than the tolerance",
    "tests/test_attention_ops.py::test_flash_fwd_dropout[dtype1-True-128-1-1-1024-1024]": "counts elements of memory "
    "that nobody wrote: with new memory zeroed the share of dropped ones is 0.203 of 0.2",
}


@dataclass(frozen=True)
class Settings:
    """What a run is told: folders, how many cases of a test, and seconds for one case."""

    sources: Path
    site: Path | None
    results: Path
    cases: int
    time_limit_s: int


@dataclass(frozen=True)
class Row:
    """A kernel (table "compile") or an operator's test (table "compare"), judged over all its cases."""

    table: str
    library: str
    name: str
    outcome: Outcome
    cases: int
    right: int
    message: str = ""


def files_of(library: Library, sources: Path) -> list[Path]:
    """The library's test files, those that take longest last."""
    found = sorted((sources / library.name).glob(library.tests), key=lambda path: ("attention" in path.name, path))
    return [path for path in found if not any(word in path.name for word in library.left_out)]


def run_file(library: Library, file: Path, settings: Settings) -> None:
    """Runs one file to its end, over as many child processes as its crashes make necessary."""
    results = settings.results / library.name / f"{file.stem}.jsonl"
    results.parent.mkdir(parents=True, exist_ok=True)
    if any(event.kind == Kind.FILE and event.cases >= settings.cases for event in read(results)):
        return
    for _ in range(40):
        before = len(read(results))
        code = _run_child(library, file, settings, results)
        events = read(results)
        if code in (0, 1, 2, 4, 5):  # pytest's own: passed, failed, refused to collect, wrong use, nothing to do
            note = f"pytest ended with {code}" if code > 1 else ""
            append(results, Event(Kind.FILE, file.name, message=note, cases=settings.cases))
            return
        open_test = events[-1].test or events[-1].name if len(events) > before else ""
        append(results, Event(Kind.END, open_test or file.name, Outcome.CRASH, f"the process ended with {code}"))
        if not open_test:
            break
    append(results, Event(Kind.FILE, file.name, message="given up", cases=settings.cases))


def _run_child(library: Library, file: Path, settings: Settings, results: Path) -> int:
    """One child; ended when it has written nothing for a while. Its exit code, -9 if it was ended."""
    folder = settings.sources / library.name
    path = [str(Path(__file__).parents[2]), *(str(folder / each) for each in library.paths)]
    path += [str(settings.site)] if settings.site else []
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        "LIBRARIES_RESULTS": str(results),
        "LIBRARIES_CASES": str(settings.cases),
        "LIBRARIES_TIME_LIMIT_S": str(settings.time_limit_s),
        "GEMS_VENDOR": "nvidia",
        "FLAGGEMS_CACHE_DIR": str(settings.results / "flag_gems"),
    }
    if library.name == "TritonBench":
        command = [sys.executable, "-m", "benchmarks.triton_cpu.tritonbench", str(file)]
    else:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "benchmarks.triton_cpu.recorder", str(file)]
        command += ["-p", "no:cacheprovider", "-W", "ignore", "-o", "addopts=", *library.options]
    log = results.with_suffix(".log")
    with log.open("a") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output)
        size = -1
        while True:
            try:
                return process.wait(QUIET_LIMIT_S)
            except subprocess.TimeoutExpired:
                now = results.stat().st_size if results.exists() else 0
                if now == size:
                    process.kill()
                    return process.wait()
                size = now


def rows_of(library: Library, results: Path) -> list[Row]:
    """Both tables of one library from its events."""
    kernels: dict[str, list[Event]] = defaultdict(list)
    tests: dict[str, list[Event]] = defaultdict(list)
    for path in sorted((results / library.name).glob("*.jsonl")):
        for event in read(path):
            if event.kind == Kind.KERNEL:
                kernels[event.name].append(event)
            elif event.kind == Kind.END:
                tests[event.name.split("[")[0].split("/")[-1]].append(event)
    rows = [_compile_row(library.name, name, events) for name, events in sorted(kernels.items())]
    rows += [_compare_row(library.name, name, events) for name, events in sorted(tests.items())]
    return rows


def _compile_row(library: str, name: str, events: list[Event]) -> Row:
    """A kernel compiles if some specialisation does and none is refused by this backend."""
    good = sum(event.outcome == Outcome.COMPILES for event in events)
    bad = [event for event in events if event.outcome not in (Outcome.COMPILES, Outcome.FRONT_END)]
    if bad:
        return Row("compile", library, name, bad[0].outcome or Outcome.ERROR, len(events), good, bad[0].message)
    outcome = Outcome.COMPILES if good else Outcome.FRONT_END
    return Row("compile", library, name, outcome, len(events), good, "" if good else events[0].message)


def _excused(event: Event) -> Event:
    """A wrong case that is known to be the test's own fault is no verdict."""
    reason = _EXCUSED.get(event.name)
    if reason is None or event.outcome != Outcome.WRONG:
        return event
    return replace(event, outcome=Outcome.NO_REFERENCE, message=reason)


def _compare_row(library: str, name: str, events: list[Event]) -> Row:
    events = [_excused(event) for event in events]
    worst = min(events, key=lambda event: _WORST_FIRST.index(event.outcome or Outcome.SKIPPED))
    right = sum(event.outcome == Outcome.RIGHT for event in events)
    return Row("compare", library, name, worst.outcome or Outcome.SKIPPED, len(events), right, worst.message)


def summary(rows: list[Row]) -> tuple[str, bool]:
    """What the tables say in two lines, and whether the goals are reached."""
    compiled = [row for row in rows if row.table == "compile" and row.outcome not in NO_VERDICT]
    good = sum(row.outcome == Outcome.COMPILES for row in compiled)
    compared = [row for row in rows if row.table == "compare" and row.outcome not in NO_VERDICT]
    right = sum(row.outcome == Outcome.RIGHT for row in compared)
    share = good / len(compiled) if compiled else 0.0
    text = (
        f"compile: {good} of {len(compiled)} kernels ({share:.1%}; goal {GOAL_COMPILE:.0%})\n"
        f"compare: {right} of {len(compared)} operators right (goal {GOAL_RIGHT})"
    )
    return text, share >= GOAL_COMPILE and right >= GOAL_RIGHT


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, required=True, help="folder of the three clones")
    parser.add_argument("--site", type=Path, help="folder of the packages that their tests need")
    parser.add_argument("--results", type=Path, default=Path("libraries-results"), help="where events are kept")
    parser.add_argument("--library", help="only this one")
    parser.add_argument("--only", default="", help="only files whose name contains this")
    parser.add_argument("--cases", type=int, default=6, help="cases of one test function, at most (default: 6)")
    parser.add_argument("--time-limit-s", type=int, default=120, help="for one case (default: 120)")
    parser.add_argument("--report", action="store_true", help="run nothing: print what the results say")
    options = parser.parse_args(arguments)
    site = options.site.resolve() if options.site else None
    settings = Settings(options.sources.resolve(), site, options.results.resolve(), options.cases, options.time_limit_s)
    rows: list[Row] = []
    for library in LIBRARIES:
        if options.library and options.library != library.name:
            continue
        for file in files_of(library, settings.sources) if not options.report else ():
            if options.only in file.name:
                print(f"{library.name}: {file.name}", file=sys.stderr)
                run_file(library, file, settings)
        rows += rows_of(library, settings.results)
    for row in rows:
        print(json.dumps(asdict(row)), flush=True)
    text, reached = summary(rows)
    print(text, file=sys.stderr)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
