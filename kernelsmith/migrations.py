"""The store's schema as numbered steps. Step N brings a store from version N-1 to N; released steps never change.

Called by store.py inside one transaction; the version is SQLite's own `user_version`.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from sqlite_utils import Database

Step = Callable[[Database], None]


def _m001_runs_and_calls(db: Database) -> None:
    db.table("runs").create(
        {
            "id": str,
            "created": str,
            "version": str,
            "operator": str,
            "target": str,
            "spec": str,
            "status": str,
            "stop": str,
            "message": str,
            "winner": int,
            "seconds": float,
        },
        pk="id",
        not_null={"created", "spec", "status", "seconds"},
    )
    db.table("calls").create(
        {
            "id": int,
            "run": str,
            "number": int,
            "model": str,
            "prompt": str,
            "parents": str,
            "repairs": int,
            "status": str,
            "reserved": str,
            "usage": str,
            "reply": str,
            "complete": int,
            "message": str,
            "created": str,
            "settled": str,
        },
        pk="id",
        foreign_keys=[("run", "runs", "id")],
        not_null={"run", "number", "model", "status", "reserved", "usage"},
    )
    db.table("calls").create_index(["run", "number"], unique=True)


def _m002_trials_and_evaluations(db: Database) -> None:
    db.table("trials").create(
        {
            "run": str,
            "number": int,
            "call": int,
            "candidate": str,
            "source": str,
            "origin": str,
            "parents": str,
            "repairs": int,
            "repeats": int,
            "created": str,
        },
        pk=("run", "number"),
        foreign_keys=[("run", "runs", "id"), ("call", "calls", "id")],
        not_null={"candidate", "source", "origin"},
    )
    db.table("evaluations").create(
        {
            "id": int,
            "run": str,
            "number": int,
            "level": str,
            "seed": int,
            "outcome": str,
            "score": float,
            "evaluation": str,
            "created": str,
        },
        pk="id",
        foreign_keys=[("run", "runs", "id")],
        not_null={"run", "number", "level", "outcome", "evaluation"},
    )
    db.table("evaluations").create_index(["run", "number"])


def _m003_confinement_of_runs(db: Database) -> None:
    db.table("runs").add_column("confinement", str)


def _m004_moves_of_calls(db: Database) -> None:
    table = db.table("calls")
    table.add_column("move", str)
    table.add_column("base", int)
    table.add_column("parts", str)


def _m005_lessons(db: Database) -> None:
    texts = ("id", "family", "category", "kind", "text", "code", "mend", "candidates", "contradicted", "created")
    columns = dict.fromkeys(texts, str) | {"edited": int, "removed": int}
    db.table("lessons").create(columns, pk="id", not_null=set(columns))


STEPS: tuple[Step, ...] = (
    _m001_runs_and_calls,
    _m002_trials_and_evaluations,
    _m003_confinement_of_runs,
    _m004_moves_of_calls,
    _m005_lessons,
)
"""In order; the length is the version that this program writes."""


def write_ahead(db: Database, seconds: float) -> None:
    """Switch to a write-ahead log. SQLite does not wait for a lock here as it does elsewhere: another process may be
    making the same store."""
    end = time.monotonic() + seconds
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.02)
