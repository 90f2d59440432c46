"""The lines that the `libraries` table keeps: one JSON object per kernel compiled and per test run.

Invariant: a line is on disk before the next thing is tried, so that a crash or a hang names its culprit. Written by
the child processes and read by their parent; imports nothing heavy.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Event:
    """One line. `kind`: kernel, start or end of a test, file (all of it is done;
    `outcome` is then how many cases of each test there were)."""

    kind: str
    name: str
    outcome: str = ""
    message: str = ""
    seconds: float = 0.0
    test: str = ""


def append(path: Path, event: Event) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(event)) + "\n")


def read(path: Path) -> list[Event]:
    """All events of a file; a last line cut short by a crash is left out."""
    if not path.exists():
        return []
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    return [Event(**json.loads(line)) for line in lines]
