"""The hostile set in every place and mode that this machine has, while honest work runs beside it.

    python -m benchmarks.drill [--times 3] [--acts-only]

Places: as we are; as an ordinary user, where we are root; each of them in bubblewrap too, where that is installed.
Modes: with every layer, and with one left out. The programs run in forks of the real judge's zygote. Prints a table,
exit code 1 if anything did not hold. `kernelsmith doctor --sandbox` is the quick form of this.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from kernelsmith.diagnosis import DrillFault, DrillResult
from kernelsmith.drill import catalog
from kernelsmith.drill.deceive import TARGET, Court, deceive
from kernelsmith.drill.drill import MODES
from kernelsmith.drill.perform import perform
from kernelsmith.drill.world import World
from kernelsmith.errors import KernelsmithError
from kernelsmith.evaluate.room.room import Room
from kernelsmith.outcome import Outcome

ROOT = Path(__file__).parents[1]
USER = 65533
REFUSED = "refused: "
"""Begins the last word where kernelsmith itself says that a place cannot confine anybody, which is right of it."""
COLUMNS = ("held", *DrillFault, "honest verdicts", "of them wrong")
HONEST = {True: Outcome.PASSED, False: Outcome.WRONG_VALUES}


def run_here(mode: str, times: int, *, acts_only: bool) -> Iterator[DrillResult]:
    """The whole set in one mode, in forks of the zygote that a judge has."""
    with World() as world:
        room = Room(TARGET, without=MODES[mode])
        try:
            with world.around(room.zygote):
                court = Court(room, world.private)
                for _ in range(times):
                    yield from (perform(act, world, room.zygote, mode) for act in catalog.acts())
                    if not acts_only:
                        yield from (deceive(cheat, world, court, mode) for cheat in catalog.cheats())
        finally:
            room.close()


def honest_work(mode: str) -> None:
    """Judge right and wrong candidates by turns until stdin ends; prints how many verdicts there were, and how many of
    them were wrong."""
    room, verdicts, wrong = Room(TARGET, without=MODES[mode]), 0, 0
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(room):
        court = Court(room, Path(folder))
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            for right, expected in HONEST.items():
                outcome = court.judge(catalog.honest(right=right)).outcome
                verdicts, wrong = verdicts + 1, wrong + (outcome is not expected)
                if outcome is not expected:
                    print(f"honest work: {outcome}, not {expected}", file=sys.stderr, flush=True)
    print(json.dumps([verdicts, wrong]), flush=True)


def inside(mode: str, times: int, *, acts_only: bool) -> None:
    """One mode in this place: a line for each result, then what became of the honest work."""
    command = [sys.executable, "-m", "benchmarks.drill", "--honest", mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as beside:
        assert beside.stdin is not None and beside.stdout is not None
        beside.stdout.readline()
        for result in run_here(mode, times, acts_only=acts_only):
            print(result.model_dump_json(), flush=True)
        beside.stdin.close()
        print(beside.stdout.readline().strip(), flush=True)


def places() -> dict[str, list[str]]:
    """Names, and the commands that lead there."""
    found: dict[str, list[str]] = {"root" if os.geteuid() == 0 else "user": []}
    bwrap, setpriv = shutil.which("bwrap"), shutil.which("setpriv")
    if os.geteuid() == 0 and bwrap and setpriv:
        leave = [setpriv, "--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
        leave += ["--inh-caps=-all", "--ambient-caps=-all"]
        opened = [bwrap, "--dev-bind", "/", "/", *_opened_home(), "--cap-add", "ALL"]
        if _opened_home():  # without namespaces, nobody else can read what is in a private home
            found["root, home opened"] = opened
        found["user"] = [*opened, *leave]
    if bwrap:
        nested = [bwrap, "--unshare-pid", "--unshare-ipc", "--bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
        nested += ["--tmpfs", "/dev/shm"]
        # Root in a user namespace of root's own making is refused (`Layers.sound`): the place is as root starts bwrap.
        ways = {"root": [*nested, "--cap-add", "ALL"], "user": [*nested, "--unshare-user"]}
        found |= {f"{name}, in bubblewrap": [*way, *ways[name]] for name, way in found.items() if name in ways}
    return found


def _opened_home() -> list[str]:
    """Flags that show the interpreter, and no more, to everyone where it lives in a private home."""
    prefix = Path(sys.base_prefix).resolve()
    private = [folder for folder in prefix.parents if not folder.stat().st_mode & 0o001]
    if not private:
        return []
    way = [folder for folder in reversed(prefix.parents) if private[-1] in folder.parents]
    flags = [word for folder in way for word in ("--perms", "0755", "--dir", str(folder))]
    return ["--tmpfs", str(private[-1]), *flags, "--ro-bind", str(prefix), str(prefix)]


ROW_SECONDS = 3600.0
"""Longest that one place and mode may take; with three rounds they take minutes."""


def row(way: list[str], mode: str, arguments: argparse.Namespace) -> Counter[str] | str:
    """What happened in one place and mode, or why it cannot be had."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o777)
        command = [*way, sys.executable, "-m", "benchmarks.drill", "--inside", mode, "--times", str(arguments.times)]
        command += ["--acts-only"] * arguments.acts_only
        environment = {**os.environ, "HOME": home, "TMPDIR": home, "XDG_RUNTIME_DIR": home, "PYTHONPATH": str(ROOT)}
        environment |= {"KERNELSMITH_CACHE_DIR": f"{home}/cache"}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=ROW_SECONDS
            )
        except subprocess.TimeoutExpired:
            return f"no end after {ROW_SECONDS:g} s"
    lines = done.stdout.splitlines()
    if done.returncode or len(lines) < 2:
        return (done.stderr.strip().splitlines() or ["no word"])[-1]
    for line in lines[:-1]:
        result = DrillResult.model_validate_json(line)
        counts["held"] += not result.breaches
        for breach in result.breaches:
            counts[breach.fault] += 1
            print(f"  {mode}, {result.name}: {breach.fault}: {breach.what}", file=sys.stderr, flush=True)
    counts["honest verdicts"], counts["of them wrong"] = json.loads(lines[-1])
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--acts-only", action="store_true", help="without the candidates that cheat")
    parser.add_argument("--place", help="only places whose name begins so")
    parser.add_argument("--mode", choices=MODES, help="only this mode")
    parser.add_argument("--inside", choices=MODES, help=argparse.SUPPRESS)
    parser.add_argument("--honest", choices=MODES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.honest:
        return honest_work(arguments.honest)
    if arguments.inside:
        try:
            return inside(arguments.inside, arguments.times, acts_only=arguments.acts_only)
        except KernelsmithError as error:
            sys.exit(f"{REFUSED}{error.message}")
    print(f"{'place':24}{'mode':26}" + "".join(f"{name:>16}" for name in COLUMNS))
    failed, had = False, False
    for place, way in places().items():
        for mode in [arguments.mode] if arguments.mode else MODES:
            if arguments.place and not place.startswith(arguments.place):
                continue
            counts = row(way, mode, arguments)
            if isinstance(counts, str):
                print(f"{place:24}{mode:26}  {counts[:150]}", flush=True)
                failed = failed or not counts.startswith(REFUSED)
                continue
            print(f"{place:24}{mode:26}" + "".join(f"{counts[name]:>16}" for name in COLUMNS), flush=True)
            had = True
            failed = failed or any(counts[name] for name in (*DrillFault, "of them wrong"))
    sys.exit(1 if failed or not had else 0)


if __name__ == "__main__":
    main()
