"""`kernelsmith tune --json` as a process of its own: with the real judge, sandbox and CPU backend.

Everything that it and its children write lies in one folder, so that a test can look at what is left.
"""

from __future__ import annotations

import getpass
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0
"""Seconds until a test gives up; generous, since machines are shared."""
KILL_NOTICE = 30.0
"""Seconds that children have to end after their parent was killed."""

COMPILER_CACHES = "torchinductor_"
"""Begin of the name of the folder where torch keeps what it compiled, headers above all; shared, to save minutes."""

Record = dict[str, Any]
_SMALL_CACHE = ("cache_flush_bytes = 67_108_864", "cache_flush_bytes = 1_048_576")
"""Nothing here asserts times, so emptying the caches before each may be cheap."""


class Folder:
    """A working folder with an operator file, and an environment whose temporary files lie in it too."""

    def __init__(self, path: Path, operator: str) -> None:
        self.path = path
        self.operator = path / "op.py"
        self.operator.write_text(operator)
        self.temporary = path / "tmp"
        self.locks = path / "locks"
        for folder in (self.temporary, self.locks, path / "targets"):
            folder.mkdir()
        caches = Path(tempfile.gettempdir()) / f"{COMPILER_CACHES}{getpass.getuser()}"
        (self.temporary / caches.name).symlink_to(caches)
        target = (ROOT / "targets" / "cpu.toml").read_text()
        assert _SMALL_CACHE[0] in target
        (path / "targets" / "cpu.toml").write_text(target.replace(*_SMALL_CACHE))
        self.environment = os.environ | {
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(self.temporary),
            "XDG_RUNTIME_DIR": str(self.locks),
            "TORCHINDUCTOR_CACHE_DIR": str(caches),
            "NO_COLOR": "1",
        }

    def left_behind(self) -> list[str]:
        """Names of temporary files and folders, but for the caches that torch keeps on purpose."""
        return [path.name for path in self.temporary.iterdir() if not path.name.startswith(COMPILER_CACHES)]

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "kernelsmith", *arguments]

    def run(
        self, *arguments: str, environment: Mapping[str, str] | None = None, module: str = "kernelsmith"
    ) -> subprocess.CompletedProcess[str]:
        """A command from beginning to end."""
        return subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.path,
            env=self.environment | (environment or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )

    def tune(self, *arguments: str) -> Tuning:
        return Tuning(self, ["tune", *arguments, "--json"])

    def measuring(self) -> bool:
        """Some judge of this folder has the device alone at this moment."""
        wanted = {path.stat().st_ino for path in self.locks.rglob("device-*.lock")}
        for line in Path("/proc/locks").read_text().splitlines():
            words = line.split()
            if words[1:2] == ["FLOCK"] and "WRITE" in words and int(words[5].rpartition(":")[2]) in wanted:
                return True
        return False


class Tuning:
    """A running `tune`, whose records are read as they come. Use as a context manager."""

    def __init__(self, folder: Folder, arguments: list[str]) -> None:
        self.records: list[Record] = []
        self._changed = threading.Condition()
        self._ended = False
        self._errors = (folder.path / f"stderr-{time.monotonic_ns()}").open("w+")
        self.process = subprocess.Popen(
            folder.command(*arguments),
            cwd=folder.path,
            env=folder.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.records.append(json.loads(line))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self._errors.close()

    @property
    def errors(self) -> str:
        return Path(self._errors.name).read_text()

    def wait_for(self, record: str, **values: object) -> Record:
        """The first record of this kind with these values; an AssertionError if the run ends without it."""

        def found() -> Record | None:
            return next((r for r in self.records if r["record"] == record and values.items() <= r.items()), None)

        with self._changed:
            self._changed.wait_for(lambda: found() or self._ended, PATIENCE)
            result = found()
        assert result is not None, f"no {record} {values}: {self.records[-3:]} {self.errors}"
        return result

    def finish(self) -> Record:
        """Wait for the end; the last record."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._ended, PATIENCE), self.records[-3:]
        self.process.wait(KILL_NOTICE)
        return self.records[-1]

    def kill(self) -> None:
        """SIGKILL to the controller alone, then wait until all it started is gone."""
        children = descendants(self.process.pid)
        assert children, "a run that is being judged has children"
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        wait_until(lambda: not any(map(alive, children)), f"still there: {[_words(c) for c in children]}")


def wait_until(condition: Callable[[], object], message: str, seconds: float = KILL_NOTICE) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, message
        time.sleep(0.02)


Identity = tuple[int, str]
"""A process: its id, and when it started, since ids are used again."""


def descendants(pid: int) -> list[Identity]:
    """Everything that a process started and that is still its child's child."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _fields(int(folder.name))):
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, front = [], [pid]
    while front:
        children = parents.get(front.pop(), [])
        front += children
        found += [(child, fields[19]) for child in children if (fields := _fields(child))]
    return found


def _fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may hold anything."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def alive(process: Identity) -> bool:
    fields = _fields(process[0])
    return bool(fields) and fields[19] == process[1] and fields[0] != "Z"


def _words(process: Identity) -> str:
    try:
        return Path(f"/proc/{process[0]}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
