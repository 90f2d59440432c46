"""Kernels compiled for chips that are not here, each once: confined processes, a time limit, and what is known already.

Invariant: a hostile text gets a process of its own, so that it can at worst spoil what is said of itself; what is kept
is decided by the text, its options, the chip, the compiler's version and the modules that read its artefacts. Used by
judges, from any thread.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from kernelsmith import toolchains
from kernelsmith.compiled import Chip
from kernelsmith.config import installed_versions
from kernelsmith.errors import InfrastructureError
from kernelsmith.offline.wire import Compile, Compiled, Count, Counted, Inspect, Inspected, Request, compiler_reply
from kernelsmith.outcome import Outcome
from kernelsmith.plan import Kernel, without_locations
from kernelsmith.sandbox import roles
from kernelsmith.sandbox.children.zygote import Child, ChildEnded
from kernelsmith.sandbox.limits import Ending, Exit, Limits
from kernelsmith.sandbox.wire.messages import Broken, Failed
from kernelsmith.sandbox.wire.protocol import ProtocolError
from kernelsmith.triton_cpu.run import pool

SECONDS = 60.0
"""For one kernel and one chip: usual ones take one or two; badly tiled ones take minutes."""
PARALLEL = 2
MOST_KEPT = 8192
"""Files, of about 1 KB each; the oldest quarter goes where there are more."""

Spawn = Callable[[str, Limits, str], Child]
"""Starts a role in a confined process under limits, with a label."""
Wanted = tuple[Kernel, Chip]
Made = Compiled | Failed
T = TypeVar("T", Compiled, Counted, Inspected)


class Builds:
    """The cache. Without a `folder` it is kept in memory alone."""

    def __init__(self, spawn: Spawn, limits: Limits, folder: Path | None, *, seconds: float = SECONDS) -> None:
        self._spawn = spawn
        self._limits = limits
        self._folder = folder
        self._seconds = seconds
        self._known: dict[str, Made] = {}
        self._lock = threading.Lock()

    def all(self, wanted: Sequence[Wanted]) -> list[Made]:
        """What became of each, two at a time; equal ones are compiled once.

        Raises InfrastructureError where a compiler cannot work here.
        """
        distinct = {_name(*one): one for one in wanted}
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="compile") as lanes:
            made = dict(zip(distinct, lanes.map(lambda item: self._one(*item), distinct.items()), strict=True))
        return [made[_name(*one)] for one in wanted]

    def _one(self, name: str, wanted: Wanted) -> Made:
        with self._lock:
            known = self._known.get(name)
        made = known or self._read(name)
        if made is None:
            made = self._compile(*wanted)
            if isinstance(made, Compiled):
                self._write(name, made)
        with self._lock:
            self._known[name] = made
        return made

    def count(self, request: Count) -> Counted | Failed:
        """The work of a kernel's launches. Raises as `all` does."""
        return self._asked(request, Counted, "count of its work")

    def inspect(self, kernel: Kernel) -> Inspected | Failed:
        """Its constructs, with the lines of this very text. Raises as `all` does."""
        return self._asked(Inspect(kernel=kernel), Inspected, "inspection of its text")

    def _compile(self, kernel: Kernel, chip: Chip) -> Made:
        return self._asked(Compile(kernel=kernel, chip=chip), Compiled, f"compiler for {chip.label}")

    def _asked(self, request: Request, kind: type[T], label: str) -> T | Failed:
        """What a confined process of its own answers, which is of this kind."""
        begin = time.monotonic()
        with self._spawn(roles.COMPILER, self._limits, label) as child:
            try:
                payload = child.request(request.model_dump_json().encode(), seconds=self._seconds).payload
                reply = compiler_reply(payload)
            except ChildEnded as ended:
                return self._ended(ended.exit, label, time.monotonic() - begin)
            except (ProtocolError, ValueError) as error:
                return _nonsense(str(error).partition("\n")[0])
        if isinstance(reply, Broken):
            raise InfrastructureError(reply.message, reply.hint)
        return reply if isinstance(reply, kind | Failed) else _nonsense("something else than was asked")

    def _ended(self, end: Exit, label: str, seconds: float) -> Failed:
        if end.ending in (Ending.LOST, Ending.STUCK):
            raise InfrastructureError(f"the {label} {end.describe()}")
        if end.ending is Ending.TIMEOUT:
            message = (
                f"the {label} did not finish within {self._seconds:g} s: fewer elements per program "
                "(smaller blocks, less unrolling) or more num_warps"
            )
            return Failed(outcome=Outcome.TIMEOUT, message=message)
        excess = end.excess(self._limits) or f"{end.describe()} after {seconds:.0f} s"
        outcome = Outcome.MEMORY if end.ending is Ending.MEMORY else Outcome.COMPILE_ERROR
        return Failed(outcome=outcome, message=f"the {label} {excess}")

    # ---------------------------------------------------------------- the folder

    def _read(self, name: str) -> Compiled | None:
        if self._folder is None:
            return None
        path = self._folder / name
        try:
            made = Compiled.model_validate_json(path.read_bytes())
            path.touch()
        except (OSError, ValueError):
            return None  # absent, or of another version: compiled again
        return made

    def _write(self, name: str, made: Compiled) -> None:
        if self._folder is None:
            return
        try:
            pool.write_atomically(self._folder / name, made.model_dump_json().encode())
            _clear(self._folder)
        except OSError:  # no room: what is compiled is kept in memory
            self._folder = None


def _nonsense(why: str) -> Failed:
    return Failed(outcome=Outcome.SANDBOX_VIOLATION, message=f"its compiler says nonsense: {why}")


def cache_folder() -> Path | None:
    """Where builds are kept between runs; None where no folder is this user's alone."""
    return pool.private_folder("offline")


def _clear(folder: Path) -> None:
    """Remove what was used longest ago, if there is too much."""
    found = list(folder.iterdir())
    if len(found) <= MOST_KEPT:
        return
    dated = []
    for path in found:
        with contextlib.suppress(FileNotFoundError):  # another judge clears away as well
            dated.append((path.stat().st_mtime, path))
    for _, path in sorted(dated)[: len(dated) // 4]:
        path.unlink(missing_ok=True)


def _name(kernel: Kernel, chip: Chip) -> str:
    plain = kernel.model_copy(update={"ttir": without_locations(kernel.ttir)})
    parts = (plain.model_dump_json(), chip.model_dump_json(), _toolchain())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@functools.cache
def _toolchain() -> str:
    """What decides a build beside its text and chip."""
    own = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        own.update(path.read_bytes())
    return f"{installed_versions().get('triton')} {' '.join(toolchains.recorded())} {own.hexdigest()}"
