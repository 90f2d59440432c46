"""The lines that the `libraries` table keeps: one JSON object per kernel compiled and per test run.

Invariant: a line is on disk before the next thing is tried, so that a crash or a hang names its culprit. Written by
the child processes and read by their parent; imports nothing heavy.
"""

from __future__ import annotations

import enum
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


class Outcome(enum.StrEnum):
    """What became of a kernel or a test, worst first: the outcome of many cases is their worst."""

    CRASH = "crash"
    WRONG = "wrong"
    NO_BUILD = "does not build"
    ERROR = "error"
    TIME_OUT = "time-out"
    UNSUPPORTED = "unsupported"
    FRONT_END = "front end"  # Triton's own refuses the kernel
    OWN_FAULT = "own fault"  # a checked build of this backend shows that the kernel leaves its tensors
    NO_REFERENCE = "no reference"
    NO_KERNEL = "no kernel"  # decided without a launch
    RIGHT = "right"
    COMPILES = "compiles"
    SKIPPED = "skipped"  # by the library's own mark


NO_VERDICT = frozenset({Outcome.FRONT_END, Outcome.OWN_FAULT, Outcome.NO_REFERENCE, Outcome.NO_KERNEL, Outcome.SKIPPED})
"""These say nothing about this backend."""


class Kind(enum.StrEnum):
    """What a line is about; `FILE`: all of a file is done, with at most `cases` cases of each test."""

    KERNEL = "kernel"
    START = "start"
    END = "end"
    FILE = "file"


@dataclass(frozen=True)
class Event:
    """One line: a kernel compiled (during `test`), a test that starts or ends, or a file that is done."""

    kind: Kind
    name: str
    outcome: Outcome | None = None
    message: str = ""
    seconds: float = 0.0
    test: str = ""
    cases: int = 0


def append(path: Path, event: Event) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(event)) + "\n")


def read(path: Path) -> list[Event]:
    """All events of a file; a last line cut short by a crash is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [_event(json.loads(line)) for line in lines if line.endswith("}")]


def _event(fields: dict[str, Any]) -> Event:
    outcome = fields.pop("outcome")
    return Event(kind=Kind(fields.pop("kind")), outcome=None if outcome is None else Outcome(outcome), **fields)
