"""The thread pool that runs kernels, and how many threads it may use.

Owns the compiled `cpp/pool.cpp` and the byte layout of a launch request. Invariant: loading starts no thread, so that
a process which forks may load the pool first; threads appear at the first launch of each process. Called by `launch`.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import stat
import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from kernelsmith.errors import InfrastructureError, UsageError
from kernelsmith.triton_cpu.run import build
from kernelsmith.triton_cpu.run.cores import usable_cores

# struct Request of cpp/pool.cpp: function, scratch bytes per thread, grid, threads; 8-byte argument slots follow.
REQUEST_HEADER = "<QQiiii"
MAX_GRID = 2**31 - 1
MAX_THREADS = 2**16 - 1  # counted in 16 bits by cpp/pool.cpp
SPIN_SECONDS = 1e-3  # as cpp/pool.cpp begins

_SOURCE = Path(__file__).parents[1] / "cpp" / "pool.cpp"
_FAILURES = {
    1: (MemoryError, "no memory for the kernel's scratch space"),
    2: (ValueError, "the grid has more than 2**62 program instances"),
}
_num_threads: int | None = None


def get_num_threads() -> int:
    """Threads per launch: what `set_num_threads` said, else `KERNELSMITH_CPU_THREADS`, else `usable_cores`."""
    global _num_threads
    if _num_threads is None:
        text = os.environ.get("KERNELSMITH_CPU_THREADS", "")
        _num_threads = _positive(text) if text else usable_cores()
    return _num_threads


def set_num_threads(count: int | None) -> None:
    """Sets the threads of later launches; None asks the environment and the machine again."""
    global _num_threads
    _num_threads = None if count is None else _positive(str(count))


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MAX_THREADS:
        raise UsageError(
            f"the number of CPU threads must be a whole number in 1..{MAX_THREADS}, not {text!r}",
            hint="set KERNELSMITH_CPU_THREADS, or call set_num_threads, with such a number",
        )
    return int(text)


def header(entry: int, grid: tuple[int, int, int], scratch_bytes: int, threads: int = 0) -> bytes:
    """The fixed part of a request; the argument slots follow it. Raises UsageError for a grid that cannot be."""
    try:
        if min(grid) >= 0:
            return struct.pack(REQUEST_HEADER, entry, scratch_bytes, *grid, threads or get_num_threads())
    except (struct.error, TypeError):
        pass  # not whole numbers, or too large: said below
    raise UsageError(f"grid {grid}: each of its three sizes must be a whole number in 0..{MAX_GRID}")


@functools.cache
def load() -> Callable[[bytes], int]:
    """The function that runs one request and returns when it is done; starts no thread.

    A launch raises MemoryError where there is none for the scratch space, ValueError for a grid that is too large.
    """
    return _launcher("kernelsmith_launch")


@functools.cache
def load_waiting() -> Callable[[bytes], int]:
    """Like `load`, for kernels whose program instances may wait for each other.

    As many as wait for one that has not begun run at once, in threads that live for this launch only; so a barrier
    across a grid works, up to the number of threads that a process may have.
    """
    return _launcher("kernelsmith_launch_waiting")


def _launcher(name: str) -> Callable[[bytes], int]:
    function = _library()[name]
    function.argtypes = [ctypes.c_char_p]
    function.restype = _check
    launch: Callable[[bytes], int] = function
    return launch


@functools.cache
def _library() -> ctypes.CDLL:
    """The compiled pool. Its names are global, since kernels that wait call `kernelsmith_stalled`."""
    return ctypes.CDLL(str(library_path()), mode=ctypes.RTLD_GLOBAL)


@functools.cache
def load_one() -> Callable[[bytes, int], int]:
    """The function that runs one program instance of a request, by its number in the grid; raises as `load`'s does."""
    function = _library().kernelsmith_launch_one
    function.argtypes = [ctypes.c_char_p, ctypes.c_long]
    function.restype = _check
    launch: Callable[[bytes, int], int] = function
    return launch


def set_spin(seconds: float) -> None:
    """How long the pool's threads spin after a launch, in case the next one follows at once; then they sleep."""
    _library().kernelsmith_spin(ctypes.c_long(round(seconds * 1e9)))


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """Threads spin as long as they do by themselves, in a process that otherwise never lets them."""
    set_spin(SPIN_SECONDS)
    try:
        yield
    finally:
        set_spin(0.0)


@contextlib.contextmanager
def meeting() -> Iterator[None]:
    """This thread launches together with all others inside: each waits until the others come to a launch or leave, and
    then they take turns, one program instance each. Raises InfrastructureError where too many threads meet."""
    if not _library().kernelsmith_sit():
        raise InfrastructureError("too many threads want to launch together")
    try:
        yield
    finally:
        _library().kernelsmith_leave()


@contextlib.contextmanager
def apart() -> Iterator[None]:
    """Others that meet do not wait for this thread meanwhile, nor it for them."""
    met = _library().kernelsmith_leave()
    try:
        yield
    finally:
        if met:
            _library().kernelsmith_sit()


def _check(status: int) -> int:
    if status:
        kind, words = _FAILURES[status]
        raise kind(f"a kernel could not be launched: {words}")
    return status


def load_library(binary: bytes) -> ctypes.CDLL:
    """Maps a shared library given as bytes. The file is gone afterwards; the mapping stays.

    Raises InfrastructureError where the folder of temporary files is full, cannot be written or holds no programs.
    """
    _library()
    try:
        handle, name = tempfile.mkstemp(prefix="kernelsmith-", suffix=".so")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(binary)
            return ctypes.CDLL(name)
        finally:
            Path(name).unlink()
    except OSError as error:
        raise InfrastructureError(f"a compiled kernel could not be loaded: {error}", build.TEMPORARY_HINT) from error


def library_path() -> Path:
    """The compiled pool; built where that was not done before."""
    return built_library("pool", _SOURCE.read_text())


def built_library(name: str, source: str) -> Path:
    """The shared library for a part of the runtime that is written in C++, compiled at its first use on a machine."""
    key = hashlib.sha256("\n".join([platform.machine(), build.find_compiler().version, source]).encode()).hexdigest()
    name = f"{name}-{key[:32]}.so"
    tried = []
    for folder in _cache_folders():
        path = folder / name
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(folder):
                tried.append(f"{folder} (others may write to it)")
                continue
            if not path.exists():
                write_atomically(path, build.compile_library(source))
            return path
        except OSError as error:
            tried.append(f"{folder} ({error.strerror or error})")
    raise InfrastructureError(
        f"no folder to keep the compiled runtime in: tried {', '.join(tried)}",
        hint="set KERNELSMITH_CACHE_DIR to a folder with space left that you alone can write to",
    )


def private_folder(name: str) -> Path | None:
    """A folder of that name beside the compiled runtime, made if need be; None where nobody else is kept out."""
    for base in _cache_folders():
        with contextlib.suppress(OSError):
            (base / name).mkdir(mode=0o700, parents=True, exist_ok=True)
            if _is_private(base) and _is_private(base / name):
                return base / name
    return None


def _cache_folders() -> Iterator[Path]:
    """Where the compiled runtime may be kept, best first."""
    if own := os.environ.get("KERNELSMITH_CACHE_DIR"):
        yield Path(own)
    elif common := os.environ.get("XDG_CACHE_HOME"):
        yield Path(common) / "kernelsmith"
    else:
        with contextlib.suppress(RuntimeError):  # a user without a home, as in many containers
            yield Path.home() / ".cache" / "kernelsmith"
    yield Path(tempfile.gettempdir()) / f"kernelsmith-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    """Code is loaded from this folder, so nobody else may be able to put a file there."""
    status = folder.stat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def write_atomically(path: Path, data: bytes) -> None:
    """Writes a file that readers see whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
