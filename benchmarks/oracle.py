"""Every kernel whose verdict is known, judged: which faults are caught at which level, and which honest ones refused.

    python -m benchmarks.oracle [--level quick|full] [--only PATTERN] [--json]

The cases are those that come with the tests (tests/cases/table.py), PATTERN being a part of their names or kinds.
Wrong verdicts are printed as they fall; then a table by kind, or with `--json` one object per verdict. Ends with 1
where a verdict is wrong: an honest kernel refused at any level, a faulty one passed at full, one of those that quick
has to see passed there, or one refused for something else than its fault.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from kernelsmith.evaluate.evaluate import evaluate
from kernelsmith.evaluate.room.room import Room
from kernelsmith.model import Job, OperatorRef
from kernelsmith.outcome import Level, Outcome
from tests.cases.table import CASES, Kind, Known

SEED = 11
LEVELS = (Level.QUICK, Level.FULL)


@dataclass(frozen=True)
class Verdict:
    """What became of one case at one level."""

    case: Known
    level: Level
    outcome: Outcome
    message: str
    seconds: float

    @property
    def caught(self) -> bool:
        """Refused, for one of the reasons that its fault may have."""
        return not self.case.right and self.outcome in self.case.outcomes

    @property
    def as_known(self) -> bool:
        """A hidden fault may pass the quick level."""
        passed_hidden = self.case.hidden and self.level is Level.QUICK and self.outcome is Outcome.PASSED
        return passed_hidden or self.outcome in self.case.outcomes

    def as_json(self) -> dict[str, object]:
        return {
            "case": self.case.name,
            "kind": self.case.kind.value,
            "level": self.level.value,
            "outcome": self.outcome.value,
            "as_known": self.as_known,
            "seconds": round(self.seconds, 2),
            "message": self.message,
        }


def judge(case: Known, level: Level, room: Room, seed: int = SEED) -> Verdict:
    """One case at one level, without any measurement of speed."""
    begin = time.monotonic()
    job = Job(
        operator=OperatorRef(path=str(case.operator)),
        target="cpu",
        source=case.source,
        level=level,
        seed=seed,
        bench=False,
        repeats=case.repeats,
        at_once=case.at_once,
        located=False,
    )
    found = evaluate(job, room)
    return Verdict(case, level, found.outcome, found.message, time.monotonic() - begin)


def table(verdicts: Sequence[Verdict], levels: Sequence[Level]) -> str:
    """One line per kind: faults caught of those there are, and honest kernels refused, by level."""
    heads = "".join(f"{f'caught at {level}':>17}{'refused':>9}{'seconds':>9}" for level in levels)
    lines = [f"{'kind':44}{heads}"]
    for kind in [*Kind, None]:
        cells = ""
        for level in levels:
            of = [v for v in verdicts if v.level is level and kind in (v.case.kind, None)]
            faulty, honest = [v for v in of if not v.case.right], [v for v in of if v.case.right]
            caught, refused = sum(v.caught for v in faulty), sum(not v.as_known for v in honest)
            counts = f"{f'{caught} of {len(faulty)}':>17}{f'{refused} of {len(honest)}':>9}"
            cells += f"{counts}{sum(v.seconds for v in of):9.1f}"
        if kind is None or any(v.case.kind is kind for v in verdicts):
            lines.append(f"{kind or 'all':44}{cells}")
    return "\n".join(lines)


def chosen(pattern: str) -> list[Known]:
    return [case for case in CASES if pattern in case.name or pattern in case.kind]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--level", choices=[level.value for level in LEVELS], help="one level; both if left out")
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    levels = (Level(options.level),) if options.level else LEVELS
    verdicts: list[Verdict] = []
    with closing(Room("cpu")) as room:
        for case in chosen(options.only):
            for level in levels:
                verdict = judge(case, level, room, options.seed)
                verdicts.append(verdict)
                if options.json:
                    print(json.dumps(verdict.as_json()), flush=True)
                elif not verdict.as_known:
                    print(f"{case.name} at {level}: {verdict.outcome}: {verdict.message}", flush=True)
    if not options.json:
        print(table(verdicts, levels))
    raise SystemExit(not all(verdict.as_known for verdict in verdicts))


if __name__ == "__main__":
    main()
