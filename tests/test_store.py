from __future__ import annotations

import contextlib
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from sqlite_utils import Database

from kernelsmith.errors import StoreError, UsageError
from kernelsmith.migrations import STEPS, write_ahead
from kernelsmith.outcome import Level
from kernelsmith.proposal import Candidate, Move, Prompt, Reply, StopReason, Usage
from kernelsmith.runs import Call, CallStatus, Run, RunStatus, TrialRecord, Verdict, spent
from kernelsmith.store import FILE, MAX_CELL_BYTES, Store
from tests.fakes import UNCONFINED, evaluation_of, spec

ROOT = Path(__file__).parents[1]
PROMPT = Prompt(system="be fast", user="please")
EXACT = Usage(input_tokens=7, output_tokens=3, usd=Decimal("0.1234567890123456789"))


def call(number: int = 1, **changes: object) -> Call:
    values = {"number": number, "model": "openai:m", "prompt": PROMPT.id, "reserved": EXACT + EXACT}
    return Call.model_validate(values | changes)


def judged(source: str = "# faster 2.0", number: int = 1) -> TrialRecord:
    verdict = Verdict(level=Level.QUICK, seed=5, evaluation=evaluation_of(source, Level.QUICK))
    return TrialRecord(number=number, candidate=Candidate(source=source, origin="openai:m"), verdict=verdict)


def filled(store: Store) -> Run:
    run = store.create(spec())
    store.intend(run, call(repairs=None, parents=("a", "b")), PROMPT, 1.0)
    store.answered(run, 1, Reply(text="täxt", usage=EXACT, model="openai:m", complete=False), 2.0)
    store.add_trial(run, judged())
    store.add_verdict(run, judged(), 3.5)
    return run


def test_round_trip(store: Store) -> None:
    run = filled(store)
    (found,) = store.runs()
    assert found.spec == run.spec and found.seconds == 3.5
    (stored,) = store.calls(run)
    assert stored.status is CallStatus.ANSWERED and stored.reply == "täxt" and not stored.complete
    assert stored.usage == EXACT, "dollars are exact"
    assert stored.parents == ("a", "b")
    assert store.trials(run) == (judged(),)


def test_reply_and_intent_are_on_disk_for_another_connection(store: Store) -> None:
    run = store.create(spec())
    store.intend(run, call(), PROMPT, 0.0)
    with Store.open(store.folder) as other:
        assert other.calls(run)[0].status is CallStatus.INTENT
        store.answered(run, 1, Reply(text="here", usage=EXACT, model="m"), 0.0)
        assert other.calls(run)[0].reply == "here"


def test_folder_is_readable_and_holds_no_seed(store: Store) -> None:
    run = filled(store)
    ended = {"status": RunStatus.FINISHED, "stop": StopReason.TRIALS, "winner": 1}
    store.finish(run.model_copy(update=ended))
    folder = store.folder_of(run)
    files = {str(p.relative_to(folder.path)) for p in folder.path.rglob("*") if p.is_file() and p.name[0] != "."}
    assert files == {
        *("run.json", "winner.py", f"prompts/{PROMPT.id}.md"),
        *(f"trials/001/{name}" for name in ("prompt.txt", "reply.md", "usage.json", "kernel.py", "evaluation.json")),
    }
    assert folder.winner.read_text() == "# faster 2.0"
    assert '"seed"' not in "".join((folder.path / name).read_text() for name in files)


def test_latest_verdict_counts(store: Store) -> None:
    run = filled(store)
    failing = Verdict(level=Level.FULL, seed=6, evaluation=evaluation_of("# wrong_values", Level.FULL))
    store.add_verdict(run, judged().model_copy(update={"verdict": failing}), 4.0)
    assert store.trials(run)[0].verdict == failing


def test_spent_counts_flights_at_their_reservation() -> None:
    calls = (
        call(1, status="answered", usage=EXACT),
        call(2),
        call(3, status="lost", usage=EXACT + EXACT),
        call(4, status="failed"),
        call(5, status="nothing"),
    )
    used = spent(calls, (judged(number=6),), 9.0)
    assert used.trials == 4, "answered, in flight, lost, and a kernel that needed no call"
    assert used.usage.usd == 3 * EXACT.usd
    assert (used.reserved_usd, used.reserved_tokens, used.seconds) == (2 * EXACT.usd, 20, 9.0)


def test_prefixes(store: Store) -> None:
    first, second = store.create(spec()), store.create(spec())
    assert store.find(first.id).id == first.id
    with pytest.raises(UsageError, match="fits 2 runs"):
        store.find("op-")
    with pytest.raises(UsageError, match="no run"):
        store.find("nothing")
    with pytest.raises(UsageError, match="no run"):
        store.find("%")
    assert [run.id for run in store.runs()] == [second.id, first.id]


def test_remove(store: Store) -> None:
    run, other = filled(store), filled(store)
    store.remove(run)
    assert [r.id for r in store.runs()] == [other.id]
    assert not store.folder_of(run).path.exists()
    assert store.trials(other) and not store.trials(run)


def test_a_store_of_an_older_version_is_brought_up_to_date(store: Store) -> None:
    run = filled(store)
    store.close()
    with sqlite3.connect(store.folder / FILE) as connection:
        connection.execute("ALTER TABLE runs DROP COLUMN confinement")
        for column in ("move", "base", "parts"):
            connection.execute(f"ALTER TABLE calls DROP COLUMN {column}")
        connection.execute("DROP TABLE lessons")
        connection.execute("PRAGMA user_version = 2")
    connection.close()
    with Store.open(store.folder) as again:
        (found,) = again.runs()
        assert (found.id, found.confinement) == (run.id, None)
        assert {(c.move, c.base, c.parts) for c in again.calls(found)} == {(Move.DRAFT, None, ())}
        again.add_verdict(found.model_copy(update={"confinement": UNCONFINED}), judged(), 4.0)
        assert again.find(run.id).confinement == UNCONFINED


def test_newer_store_is_refused(store: Store) -> None:
    store.close()
    with sqlite3.connect(store.folder / FILE) as connection:
        connection.execute(f"PRAGMA user_version = {len(STEPS) + 1}")
    connection.close()
    with pytest.raises(StoreError, match="version") as caught:
        Store.open(store.folder)
    assert "update" in caught.value.hint


@pytest.mark.parametrize("garbage", [b"this is no database, however long it may be" * 99, None])
def test_corrupt_store_says_how_to_move_it_away(store: Store, garbage: bytes | None) -> None:
    filled(store)
    store.close()
    path = store.folder / FILE
    content = path.read_bytes()
    path.write_bytes(garbage if garbage else content[:100] + b"\xff" * (len(content) - 100))
    with pytest.raises(StoreError) as caught, Store.open(store.folder) as opened:
        opened.runs()
    assert "mv " in caught.value.hint


def test_record_changed_by_hand(store: Store) -> None:
    run = filled(store)
    store.close()
    with sqlite3.connect(store.folder / FILE) as connection:
        connection.execute("UPDATE runs SET spec = '{}'")
    connection.close()
    with Store.open(store.folder) as opened, pytest.raises(StoreError, match=run.id):
        opened.runs()


def test_missing_store_is_not_made_for_reading(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store"):
        Store.open(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder owned by root while the test runs as another user: for root every folder is writable."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        if os.geteuid() != 0:
            folder.chmod(0o555)
            yield folder
            folder.chmod(0o755)
            return
        yield folder


def test_read_only_folder(as_nobody: Path) -> None:
    with Store.open(as_nobody / "full") as store:
        run = filled(store)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with pytest.raises(StoreError) as caught:
            Store.open(as_nobody / "new")
        assert "--runs" in caught.value.hint
        with pytest.raises(StoreError) as caught, Store.open(as_nobody / "full") as store:
            store.create(spec())
        assert "--runs" in caught.value.hint
        with Store.open(as_nobody / "full", create=False) as store:
            assert store.find(run.id).id == run.id, "reading needs no right to write"
    finally:
        if root:
            os.seteuid(0)


def test_runs_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(StoreError):
        Store.open(tmp_path / "runs")


FILL = """
import resource, signal, sys
from pathlib import Path
from tests.test_store import filled, call, PROMPT, EXACT
from kernelsmith.errors import StoreError
from kernelsmith.proposal import Reply
from kernelsmith.store import Store
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Store.open(Path(sys.argv[1])) as store:
    run = filled(store)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
    kept = 1
    try:
        for number in range(2, 99):
            store.intend(run, call(number), PROMPT, 0.0)
            store.answered(run, number, Reply(text="x" * 20_000, usage=EXACT, model="m"), 0.0)
            kept = number
    except StoreError as error:
        print(kept, error.hint)
"""


def test_full_disk_is_a_store_error_and_keeps_what_was_written(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    done = subprocess.run(
        [sys.executable, "-c", FILL, str(tmp_path / "runs")], cwd=ROOT, capture_output=True, text=True, check=True
    )
    kept, _, hint = done.stdout.partition(" ")
    assert "room" in hint, done.stdout
    with Store.open(tmp_path / "runs") as store:
        calls = store.calls(store.runs()[0])
    answered = [c for c in calls if c.status is CallStatus.ANSWERED]
    assert len(answered) == int(kept) > 2 and all(len(c.reply) == 20_000 for c in answered[1:])


# ---------------------------------------------------------------- somebody else's store


def changed(store: Store, sql: str) -> None:
    store.close()
    with closing(sqlite3.connect(store.folder / FILE)) as db:
        db.executescript(sql)


@pytest.mark.parametrize(
    "column",
    [
        "id = '../../outside'",
        "id = '/etc'",
        "id = '.'",
        "id = ''",
        "id = 'a' || char(10) || 'b'",
        "id = hex(zeroblob(200))",
        "spec = replace(hex(zeroblob(100000)), '00', '[')",
        "spec = '{}'",
        "status = 'odd'",
        "winner = 'one'",
        "seconds = 9e999",
    ],
)
def test_a_run_that_nobody_can_have_made_is_refused(store: Store, column: str) -> None:
    filled(store)
    changed(store, f"PRAGMA ignore_check_constraints = ON; UPDATE OR IGNORE runs SET {column};")
    with Store.open(store.folder, create=False) as again, pytest.raises(StoreError):
        again.runs()


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t AFTER UPDATE ON runs BEGIN DELETE FROM trials; END",
        "CREATE VIEW v AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
        "CREATE VIRTUAL TABLE f USING fts5(x)",
    ],
)
def test_a_store_with_code_of_its_own_is_refused(store: Store, sql: str) -> None:
    changed(store, sql)
    with pytest.raises(StoreError, match="views or triggers"):
        Store.open(store.folder, create=False)


def test_a_cell_without_measure_is_refused(store: Store) -> None:
    run = filled(store)
    changed(store, f"UPDATE trials SET source = hex(zeroblob({MAX_CELL_BYTES}))")
    with Store.open(store.folder, create=False) as again, pytest.raises(StoreError, match="too big"):
        again.trials(run)


@pytest.mark.parametrize("kind", ["a link", "a pipe", "a folder"])
def test_a_store_is_a_regular_file(tmp_path: Path, kind: str) -> None:
    path = tmp_path / FILE
    if kind == "a link":
        with closing(sqlite3.connect(tmp_path / "precious.db")) as db:
            db.execute("CREATE TABLE mine (x)")
        path.symlink_to("precious.db")
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(StoreError, match="not a regular file"):
        Store.open(tmp_path)


@pytest.mark.parametrize("link", ["", ".lock", "trials", "prompts", "trials/001/kernel.py", "winner.py", "run.json"])
def test_no_link_in_a_runs_folder_leads_a_write_outside(store: Store, tmp_path: Path, link: str) -> None:
    run = filled(store)
    outside = tmp_path / "outside"
    (outside / "001").mkdir(parents=True)
    precious = outside / "001" / "precious"
    precious.write_text("precious")
    store.close()
    path = store.folder / run.id / link if link else store.folder / run.id
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to(outside if path.suffix == "" and link != ".lock" else precious)
    with Store.open(store.folder, create=False) as again:
        with contextlib.suppress(StoreError):
            again.lock(run)
            again.add_trial(run, TrialRecord(number=7, candidate=Candidate(source="x = 1\n", origin="a")))
            again.finish(run.model_copy(update={"winner": 7}))
        with contextlib.suppress(StoreError):
            again.keep_operator(run)
        with contextlib.suppress(StoreError):
            again.held(run)
        with contextlib.suppress(StoreError, OSError):
            again.remove(run)
    assert precious.read_text() == "precious"
    assert sorted(p.relative_to(outside).as_posix() for p in outside.rglob("*")) == ["001", "001/precious"]


def test_the_winner_is_what_was_judged_not_what_lies_in_the_folder(store: Store) -> None:
    run = filled(store)
    folder = store.folder_of(run)
    folder.kernel(1).write_text("changed meanwhile")
    store.finish(run.model_copy(update={"winner": 1}))
    assert folder.winner.read_text() == store.trials(run)[0].candidate.source


def test_a_store_that_another_process_is_making_is_waited_for(tmp_path: Path) -> None:
    class Busy(Database):
        """Locked at first, as SQLite says it of this statement without waiting."""

        refusals = 0

        def execute(self, *arguments: object) -> sqlite3.Cursor:  # type: ignore[override]
            if self.refusals:
                self.refusals -= 1
                raise sqlite3.OperationalError("database is locked")
            return super().execute(*arguments)  # type: ignore[arg-type]

    db = Busy(tmp_path / "kernelsmith.db")
    db.refusals = 2
    with pytest.raises(sqlite3.OperationalError):
        write_ahead(db, 0.0)
    write_ahead(db, 5.0)
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
