"""Runs cases of Triton's language tests in worker processes, so that a crash or a hang costs one case only.

A worker is one pytest process over a few hundred cases. It writes each case's start and end into a file; when it dies
or a case takes too long, that case is recorded as such and the next worker takes the rest. Called by `language`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FOLDER = Path("python/test/unit/language")
_ROOT = Path(__file__).parents[2]
_POLL_S = 0.2
_SAID = 2000


@dataclass(frozen=True)
class Record:
    """How one case ended: `outcome` is pytest's, or `crashed`, or `timed out`. `cpu_seconds` count its compilers."""

    case: str
    outcome: str
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    message: str = ""

    @classmethod
    def of(cls, event: dict[str, Any]) -> Record:
        return cls(**{name: event[name] for name in ("case", "outcome", "seconds", "cpu_seconds", "message")})

    @property
    def file(self) -> str:
        return self.case.partition("::")[0]


@dataclass(frozen=True)
class Collected:
    """The cases there are, in the order of the files, and why some files could not be imported."""

    cases: tuple[str, ...]
    broken: dict[str, str]


class WorkerError(Exception):
    """pytest could not even start; the message is what it said."""


def _command(sources: Path, record: Path, files: Sequence[str], *options: str) -> list[str]:
    plugins = ["-p", "benchmarks.triton_cpu.language_shim", "-p", "no:cacheprovider", "-p", "no:xdist"]
    where = [f"--rootdir={sources}", "--device", "cpu", "--record", str(record)]
    return [sys.executable, "-m", "pytest", "-q", "--tb=no", *plugins, *where, *options, *files]


def _start(command: list[str], sources: Path, log: Path, cache: str) -> subprocess.Popen[bytes]:
    paths = [str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TRITON_CACHE_DIR": cache}
    with log.open("wb") as output:
        return subprocess.Popen(
            command,
            cwd=sources / FOLDER,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def read_events(text: str) -> list[dict[str, Any]]:
    """The whole lines of a record; a worker that was killed may leave half of one."""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def collect(sources: Path) -> Collected:
    """Asks pytest for every case. Raises WorkerError if it names none."""
    with tempfile.TemporaryDirectory(prefix="language-") as name:
        folder = Path(name)
        record, log = folder / "record", folder / "log"
        command = _command(sources, record, ["."], "--collect-only", "--continue-on-collection-errors")
        _start(command, sources, log, str(folder / "cache")).wait()
        events = read_events(record.read_text()) if record.exists() else []
        cases = tuple(dict.fromkeys(event["case"] for event in events if event["event"] == "case"))
        if not cases:
            raise WorkerError(f"no tests in {sources / FOLDER}: {log.read_text(errors='replace')[-_SAID:]}")
    return Collected(cases, {event["file"]: event["message"] for event in events if event["event"] == "broken"})


def run(sources: Path, cases: Sequence[str], *, limit_s: float, chunk: int) -> Iterator[Record]:
    """Runs the cases and yields each record as it comes. A case may take `limit_s` of wall time.

    Raises WorkerError if a worker dies before its first case.
    """
    pending = dict.fromkeys(cases)
    while pending:
        for record in _run_chunk(sources, list(pending)[:chunk], limit_s):
            if record.case in pending:
                del pending[record.case]
                yield record


def _run_chunk(sources: Path, cases: list[str], limit_s: float) -> Iterator[Record]:
    with tempfile.TemporaryDirectory(prefix="language-") as name:
        folder = Path(name)
        record, log, chosen = folder / "record", folder / "log", folder / "cases"
        chosen.write_text("".join(f"{case}\n" for case in cases))
        record.touch()
        files = sorted({case.partition("::")[0] for case in cases})
        worker = _start(_command(sources, record, files, "--cases", str(chosen)), sources, log, str(folder / "cache"))
        try:
            watch = _Watch(record, limit_s)
            while worker.poll() is None and not watch.late:
                time.sleep(_POLL_S)
                yield from watch.news()
        finally:
            _end(worker)
        yield from watch.news()
        said = log.read_text(errors="replace")[-_SAID:]
        if not watch.started:
            raise WorkerError(f"none of {len(cases)} cases ran, {cases[0]} the first: {said}")
        if watch.running is None:
            return
        if watch.late:
            yield Record(watch.running, "timed out", limit_s, 0.0, f"time-out after {limit_s:g} s")
        else:
            yield Record(watch.running, "crashed", 0.0, 0.0, f"crash with status {worker.returncode}\n{said}")


class _Watch:
    """Follows one worker's record: which case runs, and since when."""

    def __init__(self, record: Path, limit_s: float) -> None:
        self._record = record
        self._limit_s = limit_s
        self._read = 0
        self._since = 0.0
        self.running: str | None = None
        self.started = False

    @property
    def late(self) -> bool:
        return self.running is not None and time.monotonic() - self._since > self._limit_s

    def news(self) -> Iterator[Record]:
        """The cases that ended since the last call."""
        with self._record.open("rb") as file:
            file.seek(self._read)
            text = file.read()
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        for event in read_events(whole.decode()):
            if event["event"] == "start":
                self.running, self._since, self.started = event["case"], time.monotonic(), True
            elif event["event"] == "end":
                self.running = None
                yield Record.of(event)


def _end(worker: subprocess.Popen[bytes]) -> None:
    if worker.poll() is None:
        os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def append(path: Path, record: Record) -> None:
    """Adds one line to a file of records."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(record)) + "\n")


def load(path: Path) -> list[Record]:
    """The records of a file; none if there is no file."""
    return [Record.of(event) for event in read_events(path.read_text())] if path.exists() else []
