"""`python -m benchmarks.real_kernels --sources DIR`: does `check` accept kernels of well-known Triton libraries?

DIR holds clones, named as in `bundle.PROJECTS` (`--list` prints them with the commits that the table was made with).
Each file of `hosts` launches one kernel of a library, with sizes that the library or its tuner would choose; the
operator of that name in `operators` says in PyTorch what the library's documentation promises. The two are put into
one candidate and judged like any other, by default at level full. Beside them, what TorchInductor itself makes of some
of the operators. One JSON object per kernel on stdout; a run that is given `--results` goes on where the last ended.
Ends with 0 if at least 30 kernels pass and every rejection is one of those in `known.py`, where it is said what is
wrong with the kernel.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.real_kernels.bundle import PROJECTS, BundleError, bundled, projects_of
from benchmarks.real_kernels.known import FAULTS
from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Evaluation, Job, OperatorRef
from kernelsmith.outcome import Level, Outcome

HERE = Path(__file__).parent
GOAL = 30
BY_INDUCTOR = (
    "add_rms_norm",
    "cross_entropy",
    "group_norm",
    "layer_norm",
    "log_softmax",
    "rms_norm",
    "softmax",
    "swiglu",
)
SECONDS = 900.0
"""Wall limit of what one candidate does; these machines are slow and shared."""


@dataclass(frozen=True)
class Row:
    """One kernel, judged."""

    kernel: str
    project: str
    operator: str
    level: str
    outcome: str
    cases: int
    seconds: float
    message: str = ""
    where: str = ""
    closest: str = ""
    known: str = ""
    """Where it is refused: what is wrong with it."""


@dataclass(frozen=True)
class Subject:
    """A kernel to judge."""

    kernel: str
    project: str
    operator: str
    host: Path | None = None
    """None: TorchInductor makes it."""

    @property
    def ref(self) -> OperatorRef:
        return OperatorRef(path=str(HERE / "operators" / f"{self.operator}.py"))

    def source(self, room: Room, sources: Path) -> str:
        """The candidate's text; raises BundleError."""
        if self.host is not None:
            return bundled(self.host, sources)
        seeds = room.seeds(self.ref)
        if not seeds:
            raise BundleError("Inductor leaves a part of it to kernels of others")
        return seeds[0].source


def operator_of(host: Path) -> str:
    """A host file ends with the function that an operator is named after."""
    functions = [n.name for n in ast.parse(host.read_text(encoding="utf-8")).body if isinstance(n, ast.FunctionDef)]
    return functions[-1]


def subjects() -> list[Subject]:
    found = []
    for host in sorted((HERE / "hosts").glob("*.py")):
        project = ", ".join(project.folder for project in projects_of(host))
        found.append(Subject(host.stem, project, operator_of(host), host))
    return found + [Subject(f"inductor_{name}", "PyTorch", name) for name in BY_INDUCTOR]


def judged(room: Room, subject: Subject, sources: Path, level: Level, seed: int) -> Row:
    """Puts one candidate together and has it judged."""
    begin = time.monotonic()
    try:
        source = subject.source(room, sources)
    except (BundleError, OSError) as error:
        return Row(subject.kernel, subject.project, subject.operator, level.value, "not found", 0, 0.0, str(error))
    job = Job(operator=subject.ref, target="cpu", source=source, level=level, seed=seed, bench=False, seconds=SECONDS)
    evaluation = evaluate(job, room)
    return _row(subject, level, evaluation, time.monotonic() - begin)


def _row(subject: Subject, level: Level, found: Evaluation, seconds: float) -> Row:
    closest = found.evidence.closest if found.evidence else None
    return Row(
        subject.kernel,
        subject.project,
        subject.operator,
        level.value,
        found.outcome.value,
        found.cases,
        round(seconds, 1),
        found.message,
        found.where.describe() if found.where else "",
        closest.describe() if closest else "",
        "" if found.outcome is Outcome.PASSED else FAULTS.get(subject.kernel, ""),
    )


def _before(results: Path | None) -> Iterator[Row]:
    if results is not None and results.exists():
        for line in results.read_text(encoding="utf-8").splitlines():
            yield Row(**json.loads(line))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sources", type=Path, help="folder of the clones")
    parser.add_argument("--list", action="store_true", help="print the clones that are needed")
    parser.add_argument("--level", type=Level, choices=list(Level), default=Level.FULL)
    parser.add_argument("--only", default="", help="only kernels whose name contains this")
    parser.add_argument("--results", type=Path, help="keep rows here, and leave out what is in it")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args(arguments)
    if options.list or options.sources is None:
        for project in PROJECTS:
            print(f"{project.folder}: https://{project.repository} at {project.commit}")
        return 0 if options.list else 2
    rows = list(_before(options.results))
    done = {(row.kernel, row.level) for row in rows}
    with closing(Room("cpu")) as room:
        for subject in subjects():
            if options.only not in subject.kernel or (subject.kernel, options.level.value) in done:
                continue
            row = judged(room, subject, options.sources.resolve(), options.level, options.seed)
            rows.append(row)
            print(json.dumps(asdict(row)), flush=True)
            if options.results is not None:
                with options.results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
    rows = [row for row in rows if row.level == options.level.value]
    passed = sum(row.outcome == Outcome.PASSED for row in rows)
    unknown = [row.kernel for row in rows if row.outcome != Outcome.PASSED and not row.known]
    print(f"{passed} of {len(rows)} kernels pass at {options.level.value}", file=sys.stderr)
    if unknown:
        print(f"refused, and nobody has said why: {', '.join(unknown)}", file=sys.stderr)
    return 0 if passed >= GOAL and not unknown else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
