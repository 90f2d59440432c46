"""Compiled kernels, each built once for every candidate, launcher and run that has the same text.

A build comes from a builder (`sandbox/builder`), a fresh confined process that read nothing but this one text, and is
kept under a name that the text decides, in memory and in a folder of this user's own. Invariant: only the judge writes
here, whole files and what a builder returned for exactly that text; candidates get copies. So a hostile text can spoil
no entry but its own. Shared by the judge's threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Protocol

from kernelsmith.sandbox.wire.builds import Built, Source
from kernelsmith.sandbox.wire.messages import Failed
from kernelsmith.triton_cpu.run import pool

MEMORY_BYTES = 128 << 20
DISK_BYTES = 512 << 20
"""Of builds, some 50 KB each; where there are more, those go first that were used longest ago."""
_KEPT = 0.75
"""Share of DISK_BYTES that is left after clearing away, so that it happens seldom."""
_IDENTIFY_SECONDS = 60.0


class Builder(Protocol):
    """A process that builds; closed after one text."""

    def identify(self, seconds: float) -> str: ...

    def build(self, source: Source, seconds: float) -> Built | Failed: ...

    def close(self) -> None: ...


class Binaries:
    """The cache. `start` gives a fresh builder; without a `folder` builds are kept in memory alone."""

    def __init__(
        self, start: Callable[[], Builder], folder: Path | None = None, *, disk_bytes: int = DISK_BYTES
    ) -> None:
        self._start = start
        self._folder = folder
        self._disk_bytes = disk_bytes
        self._on_disk: int | None = None
        self._entries: OrderedDict[str, Built] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._building: dict[Source, Future[Built | Failed]] = {}
        self._toolchain = ""

    def get(
        self, source: Source, seconds: float, waiting: Callable[[], AbstractContextManager[None]] = nullcontext
    ) -> Built | Failed:
        """The build of a text, or what its compiler says against it, which is not kept; raises as the builder does.

        `seconds` are for a build of one's own. While another one builds the same text, this is inside `waiting()`; what
        comes out of that serves both, unless that builder failed.
        """
        own: Future[Built | Failed] = Future()
        while True:
            with self._lock:
                first = self._building.setdefault(source, own)
            if first is own:
                return self._lead(own, source, seconds)
            with waiting():
                wait([first])
            if first.exception() is None:
                return first.result()

    def _lead(self, own: Future[Built | Failed], source: Source, seconds: float) -> Built | Failed:
        try:
            own.set_result(self._known(source) or self._build(source, seconds))
        except BaseException as error:
            own.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._building[source]
        return own.result()

    def _known(self, source: Source) -> Built | None:
        if not self._toolchain:
            return None
        name = self._name(source)
        with self._lock:
            if name in self._entries:
                self._entries.move_to_end(name)
                return self._entries[name]
        if (built := self._read(name)) is not None:
            self._keep(name, built)
        return built

    def _build(self, source: Source, seconds: float) -> Built | Failed:
        with closing(self._start()) as builder:
            if not self._toolchain:
                self._toolchain = builder.identify(_IDENTIFY_SECONDS)
                if (known := self._known(source)) is not None:
                    return known
            built = builder.build(source, seconds)
        if isinstance(built, Failed):
            return built
        name = self._name(source)
        self._keep(name, built)
        self._write(name, built)
        return built

    def _name(self, source: Source) -> str:
        parts = (self._toolchain, str(source.fp_fusion), str(source.checked), source.ttir)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def _keep(self, name: str, built: Built) -> None:
        with self._lock:
            if name in self._entries:
                return
            self._entries[name] = built
            self._bytes += len(built.code)
            while self._bytes > MEMORY_BYTES and len(self._entries) > 1:
                _, old = self._entries.popitem(last=False)
                self._bytes -= len(old.code)

    # ---------------------------------------------------------------- the folder

    def _read(self, name: str) -> Built | None:
        if (folder := self._folder) is None:
            return None
        path = folder / name
        try:
            built = Built.model_validate_json(path.read_bytes())
            path.touch()
        except (OSError, ValueError):
            return None  # absent, or of another version: built again
        return built

    def _write(self, name: str, built: Built) -> None:
        if (folder := self._folder) is None:  # another thread may give it up meanwhile
            return
        data = built.model_dump_json().encode()
        try:
            pool.write_atomically(folder / name, data)
            with self._lock:
                self._on_disk = self._clear(folder) if self._on_disk is None else self._on_disk + len(data)
                if self._on_disk > self._disk_bytes:
                    self._on_disk = self._clear(folder)
        except OSError as error:
            self._folder = None
            warnings.warn(f"compiled kernels are kept in memory only from here on: {error}", stacklevel=2)

    def _clear(self, folder: Path) -> int:
        """Remove what was used longest ago, if there is too much; returns the bytes that are left."""
        found = []
        for path in folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another judge clears away as well
                status = path.stat()
                found.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in found)
        if total > self._disk_bytes:
            for _, size, path in sorted(found):
                path.unlink(missing_ok=True)
                total -= size
                if total <= _KEPT * self._disk_bytes:
                    break
        return total


def cache_folder() -> Path | None:
    """Where builds are kept between runs; None where no folder is this user's alone."""
    return pool.private_folder("kernels")
