"""Many kernels compiled for every device that something here compiles for, without any of them.

    python -m benchmarks.offline [--fresh] [--cases] [--targets nvidia-h200,amd-mi300x] [NAME ...]

One line per kernel and target: whether it compiles and fits, what it takes, and the seconds of its compilation; a
summary at the end. Builds are kept between runs as for `check --also`; `--fresh` makes them anew. The plans are those
of the tuned workloads, recorded on this machine: of the library's kernels on `examples/`, and with `--cases`
of the right kernels among `tests/cases` too.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

from kernelsmith import targets
from kernelsmith.compiled import Build, Fit
from kernelsmith.evaluate.check.check import Checker
from kernelsmith.evaluate.check.ports import Recording, ported
from kernelsmith.evaluate.room.room import MODEL_SEED, Room
from kernelsmith.evaluate.sessions import allowance
from kernelsmith.evaluate.sessions.owntime import OwnTime
from kernelsmith.evaluate.sessions.session import CandidateSession, LauncherSession
from kernelsmith.model import OperatorRef
from kernelsmith.offline import builds as offline
from kernelsmith.offline.fit import chip_of, rows
from kernelsmith.render import fit_lines
from kernelsmith.sandbox.wire.messages import Load
from kernelsmith.targets import Target
from tests.cases.table import CASES, FOLDER

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
KERNELS = {path.stem: (EXAMPLES / path.name, path) for path in sorted((ROOT / "prompts" / "kernels").glob("*/*.py"))}
"""Operator file and kernel file, by name."""
OTHERS = {case.name: (case.operator, FOLDER / f"{case.name}.py") for case in CASES if case.right}
SECONDS = 600.0
"""For recording one kernel's calls."""


def builds_of(name: str, room: Room, devices: list[Target]) -> tuple[Build, ...]:
    """The kernels of one example, for the chips of all targets."""
    path, kernel = (KERNELS | OTHERS)[name]
    operator = room.operator(OperatorRef(path=str(path)))
    source = kernel.read_text(encoding="utf-8")
    limits = allowance.limits(room.sizes(operator), room.threads, on_card=False)
    own_time = OwnTime(SECONDS)
    with (
        closing(CandidateSession(room.zygote, limits, room.arenas, room.binaries, own_time)) as candidate,
        closing(LauncherSession(room.zygote, limits, room.arenas, room.binaries, own_time)) as launcher,
    ):
        entry = operator.info.name
        candidate.load(Load(source=source, entry=entry, seed=MODEL_SEED), None, SECONDS)
        checker = Checker(room.truths, operator, candidate, launcher, seed=0, time=own_time)
        chips = list(dict.fromkeys(chip for target in devices if (chip := chip_of(target))))
        return ported(Recording(checker, chips).all(operator, {}), checker, room.builds, source)


def summary(fits: list[Fit], seconds: float) -> list[str]:
    """How many cells there are, what became of them, and how long the compilers took."""
    outcomes = Counter(str(fit.outcome) for fit in fits)
    spilling = sum(bool(fit.resources and fit.resources.spill_bytes) for fit in fits)
    times = [fit.seconds for fit in fits]
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    return [
        f"{len(fits)} cells: {counts}; {spilling} spill",
        f"{seconds:.0f} s in all; compilations of {sum(times):.0f} s, the longest {max(times):.1f} s",
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[*KERNELS, *OTHERS, []], metavar="NAME")
    parser.add_argument("--targets", default="")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--cases", action="store_true")
    arguments = parser.parse_args()
    named = [targets.load(name) for name in arguments.targets.split(",") if name]
    devices = named or [target for target in map(targets.load, targets.available()) if chip_of(target)]
    begin, fits = time.monotonic(), list[Fit]()
    with closing(Room("cpu")) as room, tempfile.TemporaryDirectory() as folder:
        if arguments.fresh:
            limits = allowance.ours(2 * offline.SECONDS)
            room.builds = offline.Builds(
                lambda role, limits, label: room.zygote.spawn(role, limits=limits, label=label), limits, Path(folder)
            )
        for name in arguments.names or (KERNELS | OTHERS if arguments.cases else KERNELS):
            found = rows(devices, builds_of(name, room, devices), passed=True)
            print("\n".join(fit_lines(found)), flush=True)
            fits += found
    print("\n".join(summary(fits, time.monotonic() - begin)))


if __name__ == "__main__":
    main()
