"""The store: one SQLite file `kernelsmith.db` and one readable folder per run. The only state of a run.

Invariants: an intent row precedes every call of a model; a reply is on disk before it is judged; every write is one
short transaction, so that several tune processes share a store; a run is tuned by one process at a time (its lock). All
failures of disk and database are StoreError. Used by one thread of tune.py, and by report, runs and export.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from sqlite_utils import Database

from kernelsmith import rows
from kernelsmith.config import program_version
from kernelsmith.errors import StoreError, UsageError
from kernelsmith.migrations import STEPS, write_ahead
from kernelsmith.model import Confinement
from kernelsmith.proposal import Prompt, Reply, Usage
from kernelsmith.runs import Call, CallStatus, Folder, Run, RunSpec, RunStatus, TrialRecord

FILE = "kernelsmith.db"
MAX_CELL_BYTES = 16 << 20
"""Of one value; the longest that are written are replies and operators of a few MiB."""
BUSY_SECONDS = 30.0
"""How long a write waits for another process; transactions take milliseconds."""


Skip = Callable[[StoreError], None]
"""Hears of what is left out because it cannot be read."""


class Store:
    """Open with `Store.open`; close it, or use it as a context manager."""

    def __init__(self, folder: Path, db: Database) -> None:
        self.folder = folder
        self._db = db
        self._locks: dict[str, IO[str]] = {}

    # ------------------------------------------------------------ opening

    @classmethod
    def open(cls, folder: Path, *, create: bool = True) -> Store:
        """Open, create or migrate the store in `folder`; with `create=False` a missing one is a StoreError."""
        path = folder / FILE
        if not create and not path.exists():
            raise StoreError(
                f"{folder}: no store here", "name the folder with --runs, or start with `kernelsmith tune`"
            )
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise StoreError(f"{path}: not a regular file", "name another folder with --runs")
        with _guard(path):
            if create:
                folder.mkdir(parents=True, exist_ok=True)
            readonly = not create and not _writable(folder, path)
            # a store on a read-only disk can still be reported from; `immutable` needs no shared-memory file
            mode = "mode=ro&immutable=1" if readonly else "mode=rwc"
            connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS)
            try:
                store = cls(folder, Database(connection, execute_plugins=False))
                store._distrust(path, connection)
                store._migrate(path, readonly=readonly)
            except BaseException:
                connection.close()
                raise
        return store

    def _distrust(self, path: Path, connection: sqlite3.Connection) -> None:
        """A store may be somebody else's work: no cell without measure, and no code of its own."""
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
        self._db.execute("PRAGMA trusted_schema = OFF")
        self._db.execute("PRAGMA cell_size_check = ON")
        sql = "SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger') OR sql LIKE 'create virtual%' LIMIT 1"
        if self._db.execute(sql).fetchone() is not None:
            raise StoreError(f"{path}: has views or triggers, which kernelsmith never makes", "do not use this store")

    def _migrate(self, path: Path, *, readonly: bool) -> None:
        version = self._version(path)
        if version == len(STEPS):
            return
        if readonly:
            raise StoreError(f"{path}: has version {version} and cannot be written", "make it writable once")
        write_ahead(self._db, BUSY_SECONDS)
        with self._writing():
            for number in range(self._version(path), len(STEPS)):
                STEPS[number](self._db)
            self._db.execute(f"PRAGMA user_version = {len(STEPS)}")

    def _version(self, path: Path) -> int:
        version = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if version > len(STEPS):
            raise StoreError(
                f"{path}: has version {version}; kernelsmith {program_version()} knows versions up to {len(STEPS)}",
                "update kernelsmith, or use another folder with --runs",
            )
        return version

    def close(self) -> None:
        for lock in self._locks.values():
            lock.close()
        self._locks.clear()
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _writing(self, *, durable: bool = True) -> Iterator[None]:
        """One transaction that takes the write lock at once: a read that turns into a write could not wait for it.

        A killed process loses nothing either way; `durable` ones survive a power failure too. What has been paid for
        is durable; what can be judged again need not be, and then costs no flush of the disk.
        """
        with _guard(self.folder / FILE):
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._db.rollback()
                raise

    def select(self, sql: str, *parameters: object) -> list[dict[str, Any]]:
        with _guard(self.folder / FILE):
            return list(self._db.query(sql, parameters))

    def change(self, sql: str, *parameters: object) -> None:
        with self._writing(durable=False):
            self._db.execute(sql, parameters)

    # ------------------------------------------------------------ runs

    def create(self, spec: RunSpec) -> Run:
        """A new run with an id of its own; locked by this process."""
        stem = "".join(c if c.isalnum() else "-" for c in spec.info.title.lower())[:40].strip("-") or "run"
        run = Run(
            id=f"{stem}-{secrets.token_hex(3)}",
            created=_now(),
            version=program_version(),
            spec=spec,
            status=RunStatus.RUNNING,
        )
        self.lock(run)
        row = {
            "id": run.id,
            "created": run.created,
            "version": run.version,
            "operator": spec.info.title,
            "target": spec.target,
            "spec": spec.model_dump_json(),
            "status": run.status.value,
            "seconds": 0.0,
        }
        with self._writing():
            self._db.table("runs").insert(row)
            self.folder_of(run).describe(run)
        return run

    def folder_of(self, run: Run) -> Folder:
        return Folder(self.folder / run.id)

    def keep_operator(self, run: Run) -> Path:
        """Put the operator's text into the run's folder, so that there is a file to name; returns that."""
        with _guard(self.folder / run.id):
            return self.folder_of(run).keep_operator(run.spec.info.source).absolute()

    def lock(self, run: Run) -> None:
        """Take the run for this process until close(); UsageError if another has it."""
        if run.id in self._locks:
            return
        with _guard(self.folder / run.id):
            handle = self._lock_file(run)
            assert handle is not None, "it was made"
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                handle.close()
                raise UsageError(f"run {run.id} is being tuned by another process", "wait for it, or stop it") from None
        self._locks[run.id] = handle

    def held(self, run: Run) -> bool:
        """Some process is tuning it."""
        if run.id in self._locks:
            return True
        with _guard(self.folder / run.id):
            handle = self._lock_file(run, create=False)
        if handle is None:
            return False
        with handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def _lock_file(self, run: Run, *, create: bool = True) -> IO[str] | None:
        """Opened, never through a link; None where there is none."""
        folder = self.folder_of(run)
        path = folder.own(folder.path / ".lock")
        if create:
            path.parent.mkdir(parents=True, exist_ok=True)
        access = os.O_RDWR | os.O_CREAT if create else os.O_RDONLY
        try:
            return os.fdopen(os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644), "r")
        except FileNotFoundError:
            return None

    def runs(self, skip: Skip | None = None) -> tuple[Run, ...]:
        """Newest first. Raises StoreError for one that cannot be read, or tells `skip` and leaves it out."""
        found = []
        for row in self.select("SELECT * FROM runs ORDER BY created DESC, rowid DESC"):
            try:
                found.append(rows.run(row))
            except StoreError as error:
                if skip is None:
                    raise
                skip(error)
        return tuple(found)

    def find(self, prefix: str) -> Run:
        """The run whose id begins with `prefix`; UsageError unless there is exactly one."""
        matches = self.select("SELECT * FROM runs WHERE substr(id, 1, ?) = ? ORDER BY id", len(prefix), prefix)
        exact = [row for row in matches if row["id"] == prefix]
        found = exact or matches
        if len(found) == 1:
            return rows.run(found[0])
        if not found:
            raise UsageError(f"no run `{prefix}` in {self.folder}", "see `kernelsmith runs list`")
        raise UsageError(
            f"`{prefix}` fits {len(found)} runs: {', '.join(r['id'] for r in found[:5])}", "give more of it"
        )

    def update(self, run: Run) -> Run:
        """Write what changes during a run: status, stop, message, winner, seconds, confinement, spec."""
        row = {
            "spec": run.spec.model_dump_json(),
            "status": run.status.value,
            "stop": run.stop.value if run.stop else None,
            "message": run.message,
            "winner": run.winner,
            "seconds": run.seconds,
            "confinement": _json(run.confinement),
        }
        with self._writing():
            self._db.table("runs").update(run.id, row)
            self.folder_of(run).describe(run)
        return run

    def finish(self, run: Run) -> None:
        """Close the books on a run; a winner's kernel becomes `winner.py`."""
        if run.winner is not None:
            (row,) = self.select("SELECT source FROM trials WHERE run = ? AND number = ?", run.id, run.winner)
            with _guard(self.folder / run.id):
                self.folder_of(run).keep_winner(row["source"])
        self.update(run)

    def remove(self, run: Run) -> None:
        """Delete a run, its rows and its folder; UsageError while it is being tuned."""
        self.lock(run)
        with self._writing():
            for table in ("evaluations", "trials", "calls"):
                self._db.table(table).delete_where("run = ?", [run.id])
            self._db.table("runs").delete(run.id)
        self._locks.pop(run.id).close()
        with _guard(self.folder / run.id):
            shutil.rmtree(self.folder / run.id)

    # ------------------------------------------------------------ calls

    def intend(self, run: Run, call: Call, prompt: Prompt, seconds: float) -> None:
        """Write the intent and its reservation, before the call is made."""
        row = {
            "run": run.id,
            "number": call.number,
            "model": call.model,
            "prompt": call.prompt,
            "move": call.move.value,
            "base": call.base,
            "parents": json.dumps(call.parents),
            "repairs": call.repairs,
            "parts": json.dumps(call.parts),
            "status": call.status.value,
            "reserved": rows.exact(call.reserved),
            "usage": rows.exact(Usage()),
            "created": _now(),
        }
        with self._writing():
            self.folder_of(run).prompt(call.number, prompt)
            # a call that brought nothing leaves its number to the next one
            self._db.execute(
                "DELETE FROM calls WHERE run = ? AND number = ? AND status = ?",
                (run.id, call.number, CallStatus.NOTHING.value),
            )
            self._db.table("calls").insert(row)
            self._clock(run, seconds)

    def answered(self, run: Run, number: int, reply: Reply, seconds: float) -> None:
        """Put a reply on disk and settle what it cost."""
        changes = {
            "status": CallStatus.ANSWERED.value,
            "model": reply.model,
            "usage": rows.exact(reply.usage),
            "reply": reply.text,
            "complete": int(reply.complete),
            "settled": _now(),
        }
        with self._writing():
            self._settle(run, number, changes)
            self._clock(run, seconds)
            self.folder_of(run).reply(number, reply.text, rows.exact(reply.usage))

    def unanswered(self, run: Run, number: int, status: CallStatus, usage: Usage, message: str) -> None:
        """A call that brought no reply; `usage` is what it is charged."""
        changes = {"status": status.value, "usage": rows.exact(usage), "message": message, "settled": _now()}
        with self._writing():
            self._settle(run, number, changes)

    def _settle(self, run: Run, number: int, changes: Mapping[str, object]) -> None:
        names = ", ".join(f"{name} = ?" for name in changes)
        self._db.execute(f"UPDATE calls SET {names} WHERE run = ? AND number = ?", (*changes.values(), run.id, number))

    def _clock(self, run: Run, seconds: float) -> None:
        self._db.execute("UPDATE runs SET seconds = ? WHERE id = ?", (seconds, run.id))

    def calls(self, run: Run) -> tuple[Call, ...]:
        found = self.select("SELECT * FROM calls WHERE run = ? ORDER BY number", run.id)
        return tuple(rows.call(row) for row in found)

    # ------------------------------------------------------------ trials

    def add_trial(self, run: Run, trial: TrialRecord) -> None:
        row = {
            "run": run.id,
            "number": trial.number,
            "candidate": trial.candidate.id,
            "source": trial.candidate.source,
            "origin": trial.candidate.origin,
            "parents": json.dumps(trial.candidate.parents),
            "repairs": trial.repairs,
            "repeats": trial.repeats,
            "created": _now(),
        }
        with self._writing(durable=False):
            self._db.table("trials").insert(row)
            self.folder_of(run).candidate(trial)

    def add_verdict(self, run: Run, trial: TrialRecord, seconds: float) -> None:
        """Store the trial's verdict, and what confined the run so far; later verdicts count over earlier ones."""
        verdict = trial.verdict
        assert verdict is not None, "a verdict is what is stored here"
        row = {
            "run": run.id,
            "number": trial.number,
            "level": verdict.level.value,
            "seed": verdict.seed,
            "outcome": verdict.evaluation.outcome.value,
            "score": verdict.evaluation.score,
            "evaluation": verdict.evaluation.model_dump_json(),
            "created": _now(),
        }
        with self._writing(durable=False):
            self._db.table("evaluations").insert(row)
            self._db.execute(
                "UPDATE trials SET repeats = ? WHERE run = ? AND number = ?", (trial.repeats, run.id, trial.number)
            )
            self._db.execute("UPDATE runs SET confinement = ? WHERE id = ?", (_json(run.confinement), run.id))
            self._clock(run, seconds)
            self.folder_of(run).evaluation(trial.number, verdict.evaluation)

    def trials(self, run: Run) -> tuple[TrialRecord, ...]:
        """In order of their numbers, each with its latest verdict."""
        found = self.select(
            """
            SELECT t.*, e.level, e.seed, e.evaluation FROM trials t
            LEFT JOIN evaluations e ON e.id = (SELECT max(id) FROM evaluations WHERE run = t.run AND number = t.number)
            WHERE t.run = ? ORDER BY t.number
            """,
            run.id,
        )
        return tuple(rows.trial(row) for row in found)


def _json(confinement: Confinement | None) -> str | None:
    return confinement.model_dump_json() if confinement else None


@contextmanager
def _guard(path: Path) -> Iterator[None]:
    """Failures of disk and database as StoreError, each with what to do about it."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise StoreError(f"{path}: {error}", _advice(path, str(error))) from error
    except OSError as error:
        raise StoreError(f"{error.filename or path}: {error.strerror or error}", _advice(path, str(error))) from error


def _writable(*paths: Path) -> bool:
    return all(os.access(path, os.W_OK, effective_ids=True) for path in paths)


def _advice(path: Path, said: str) -> str:
    if "malformed" in said or "not a database" in said:
        return f"it is damaged; move it away (mv {path} {path}.damaged); the runs' folders stay readable"
    if any(words in said for words in ("full", "No space", "File too large", "disk I/O", "Disk quota")):
        return "make room on the disk, then `kernelsmith tune --resume RUN`; nothing that arrived before is lost"
    if "readonly" in said or "Read-only" in said or "Permission" in said or "unable to open" in said:
        return "the folder cannot be written; name another with --runs DIR or KERNELSMITH_RUNS"
    if "locked" in said:
        return "another process has held the store for long; is the folder on a network disk?"
    return "check the disk, or name another folder with --runs DIR"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
