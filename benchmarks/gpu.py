"""Everything that waits for a GPU, by one command.

    python -m benchmarks.gpu [--device cuda] [--targets DIR] [--max-time 120s] [--no-tests] [--write FILE] [NAME ...]

The steps of `benchmarks.first_day`, the tests marked `gpu`, the whole loop on the examples (`kernelsmith tune`, without
a model), and a table of the winners: milliseconds of a call, and how many times faster than eager, torch.compile and
torch.compile with max-autotune, each in one interleaved run. The exit code is 1 if anything failed, and 2 where there
is no such device: then nothing is run, and what is missing is said. `--no-tests` leaves out the first two, and so does
`--device cpu`. Where the driver's files do not tell which card it is, name the target: `--device nvidia-h200`.
`--unsafe-no-sandbox` is for machines that cannot confine a process; all kernels here are kernelsmith's own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.devices import cards
from kernelsmith.devices.choose import choose
from kernelsmith.errors import KernelsmithError
from kernelsmith.execute.local import LocalExecutor
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Outcome

ROOT = Path(__file__).parents[1]
EXAMPLES = {path.stem: path for path in sorted((ROOT / "examples").glob("*.py"))}
BASELINES = ("eager", "compile", "max-autotune")
BENCH_SECONDS = 30.0
"""Of an example's last measurement."""
JOB_SECONDS = 1800.0
"""Of everything that a winner does there; max-autotune compiles for minutes, which does not count."""


@dataclass(frozen=True)
class Place:
    """Where everything runs."""

    device: str
    """A target's name."""
    targets: Path | None
    unsafe: bool

    @property
    def flags(self) -> list[str]:
        """For commands that know the device already."""
        found = ["--targets", str(self.targets)] if self.targets else []
        return [*found, *(["--unsafe-no-sandbox"] if self.unsafe else [])]


def won(name: str, place: Place, max_time: str, runs: Path) -> tuple[str | None, str]:
    """The source of the kernel that a run ends with, and a word about the run."""
    command = [sys.executable, "-m", "kernelsmith", "tune", str(EXAMPLES[name]), "--device", place.device, "--json"]
    command += [*place.flags, "--model", "offline", "--max-time", max_time, "--runs", str(runs)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = said.stdout.splitlines()
    result = json.loads(lines[-1]) if lines else {}
    winner = result.get("winner")
    if not winner:
        return None, f"{name}: no kernel (exit code {said.returncode}): {result.get('message') or said.stderr[-300:]}"
    return Path(winner["kernel"]).read_text(), f"{name}: {winner['origin']}"


def measured(name: str, source: str, device: str, executor: LocalExecutor) -> Evaluation:
    """The kernel beside every baseline."""
    job = Job(
        operator=OperatorRef(path=str(EXAMPLES[name])),
        target=device,
        source=source,
        seed=1,
        baselines=BASELINES,
        bench_seconds=BENCH_SECONDS,
        seconds=JOB_SECONDS,
    )
    return executor.evaluate(job)


def table(rows: Sequence[tuple[str, Evaluation]]) -> str:
    """Markdown: one line per example and workload; a baseline that could not run has no ratio."""
    lines = [f"| example | workload | kernel ms | {' | '.join(f'x {name}' for name in BASELINES)} | verdict |"]
    lines.append("|---" * (len(BASELINES) + 4) + "|")
    for name, evaluation in rows:
        for timing in evaluation.timings:
            ratios = [f"{timing.speedup[b]:.2f}" if b in timing.speedup else "" for b in BASELINES]
            sizes = timing.workload.label
            lines.append(f"| {name} | {sizes} | {timing.median_ms:.4g} | {' | '.join(ratios)} | {timing.verdict} |")
        if evaluation.outcome is not Outcome.PASSED:
            lines.append(f"| {name} | {evaluation.outcome} at {evaluation.stage} |{' |' * (len(BASELINES) + 2)}")
    notes = dict.fromkeys(f"{name}: {note}" for name, one in rows for note in one.notes if "baseline" in note)
    return "\n".join([*lines, *(["", *notes] if notes else [])])


def tuned(names: Sequence[str], place: Place, max_time: str) -> list[tuple[str, Evaluation]]:
    """Every example's winner, measured; says what becomes of each as it goes."""
    rows = []
    executor = LocalExecutor(place.device, width=1, targets=place.targets, unsafe_no_sandbox=place.unsafe)
    with tempfile.TemporaryDirectory() as runs, closing(executor):
        for name in names:
            source, said = won(name, place, max_time, Path(runs))
            print(said, flush=True)
            if source is not None:
                rows.append((name, measured(name, source, place.device, executor)))
                print(table(rows[-1:]), flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[*EXAMPLES, []], metavar="NAME")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--max-time", default="120s")
    parser.add_argument("--targets", type=Path)
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--unsafe-no-sandbox", action="store_true")
    parser.add_argument("--write", type=Path)
    arguments = parser.parse_args()
    try:
        target = choose(arguments.device, arguments.targets)
        card = cards.present(target)[0]
    except KernelsmithError as error:
        missing = f"nothing was run of {len(EXAMPLES)} examples and the tests marked gpu. {error.message}"
        print(f"{missing}\n{error.hint}", file=sys.stderr)
        return 2
    print(f"{target.name} on {card.name}", flush=True)
    place, wrong = Place(target.name, arguments.targets, arguments.unsafe_no_sandbox), list[int]()
    if card.node is not None and not arguments.no_tests:
        first_day = [sys.executable, "-m", "benchmarks.first_day", target.name, *place.flags]
        tests = [sys.executable, "-m", "pytest", "-m", "gpu"]
        wrong = [subprocess.run(step, cwd=ROOT, check=False).returncode for step in (first_day, tests)]
    names = arguments.names or list(EXAMPLES)
    rows = tuned(names, place, arguments.max_time)
    print(text := table(rows), flush=True)
    if arguments.write:
        arguments.write.write_text(f"{target.name}\n\n{text}\n", encoding="utf-8")
    lost = len(rows) < len(names) or any(one.outcome is not Outcome.PASSED for _, one in rows)
    return int(any(wrong) or lost)


if __name__ == "__main__":
    sys.exit(main())
