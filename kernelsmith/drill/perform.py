"""Runs an act and its twin, each in a confined child of its own, and says what did not hold.

Invariant: `perform` comes back in bounded time whatever the program does, and its child is dead by then.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.diagnosis import DrillBreach, DrillFault, DrillResult
from kernelsmith.drill.audit import Watch, powers
from kernelsmith.drill.catalog import Act, Ended
from kernelsmith.drill.role import ROLE
from kernelsmith.drill.world import World
from kernelsmith.sandbox import usage
from kernelsmith.sandbox.children.zygote import ChildEnded, Zygote
from kernelsmith.sandbox.limits import Ending, Limits
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.protocol import ProtocolError
from kernelsmith.sandbox.wire.reading import candidate_reply, launcher_reply

_MEMORY = 160 << 20
_PATIENCE = 20.0
"""Seconds beyond a program's own limit until its end counts as late; machines are shared."""
_TWIN_SECONDS = 60.0
ARENA_BYTES = 1 << 20


@dataclass(frozen=True)
class _End:
    ended: Ended
    said: bytes
    log: str
    breaches: tuple[DrillBreach, ...]


def limits(seconds: float) -> Limits:
    """Of a program: small, so that it is quickly shown that they hold."""
    return Limits(
        seconds=seconds,
        memory_bytes=_MEMORY,
        processes=24,
        file_bytes=8 << 20,
        scratch_bytes=16 << 20,
        log_bytes=1 << 18,
    )


def perform(act: Act, world: World, zygote: Zygote, mode: str) -> DrillResult:
    """The act, then its twin. Raises InfrastructureError, SandboxError where the sandbox itself does not work."""
    started = time.monotonic()
    breaches: list[DrillBreach] = []
    ended = Ended.LOST
    for part in ("act", "twin"):
        watch, files = Watch(world), _open_files()
        began = time.monotonic()
        seconds = act.seconds if part == "act" else _TWIN_SECONDS
        end = _play(act, part, world, zygote, seconds)
        found = [*end.breaches, *watch.breaches(), *world.leaks(end.said.decode(errors="replace"), end.log)]
        if time.monotonic() - began > seconds + _PATIENCE:
            found.append(DrillBreach(fault=DrillFault.CRASH, what=f"its end took {time.monotonic() - began:.0f} s"))
        if left := _open_files() - files:
            found.append(DrillBreach(fault=DrillFault.CRASH, what=f"the judge is left with open files: {sorted(left)}"))
        if part == "act":
            ended = end.ended
            found += _wrong_end(act, end)
        elif end.ended is not Ended.ANSWERED or found:
            found = [DrillBreach(fault=DrillFault.HONEST_REFUSED, what=_refusal(end, found))]
        breaches += found
    return DrillResult(
        mode=mode,
        kind="act",
        name=act.name,
        about=act.about,
        ended=ended,
        breaches=tuple(breaches),
        seconds=time.monotonic() - started,
    )


def _wrong_end(act: Act, end: _End) -> Iterator[DrillBreach]:
    if end.ended not in act.ends:
        fault = DrillFault.CRASH if end.ended in (Ended.LOST, Ended.STUCK) else DrillFault.ESCAPE
        last = end.log.strip().rpartition("\n")[2]
        yield DrillBreach(
            fault=fault, what=f"ended as {end.ended}, not as {' or '.join(sorted(act.ends))} {last}".strip()
        )


def _refusal(end: _End, found: list[DrillBreach]) -> str:
    reasons = "; ".join(breach.what for breach in found) or end.log.strip().rpartition("\n")[2]
    return f"its twin {end.ended}: {reasons}"


def _play(act: Act, part: str, world: World, zygote: Zygote, seconds: float) -> _End:
    """One child from birth to death, with two arenas of the judge's: one it may write, one it may not."""
    with Arena.create(ARENA_BYTES) as shared, Arena.create(ARENA_BYTES, sealed_for_others=True) as sealed:
        sealed.buffer[:4] = b"true"
        order = {"source": act.source, "name": act.name, "part": part, "world": world.order()}
        child = zygote.spawn(ROLE, limits=limits(seconds), label=act.name)
        said, found = b"", list[DrillBreach]()
        try:
            frame = child.request(json.dumps(order).encode(), [shared.fd, sealed.fd], seconds=seconds + _PATIENCE)
            said, ended = frame.payload, Ended.ANSWERED
            found += powers([child.pid, *usage.descendants(child.pid)], zygote)
        except ChildEnded as end:
            ended = Ended(end.exit.ending.value)
        except ProtocolError:
            ended = Ended.GARBLED
        finally:
            exit = child.kill()
        if exit.ending in (Ending.LOST, Ending.STUCK):
            ended = Ended(exit.ending.value)
        if sealed.buffer[:4] != b"true" or os.fstat(shared.fd).st_size != ARENA_BYTES:
            found.append(DrillBreach(fault=DrillFault.ESCAPE, what="changed what was sealed"))
        _ = shared.buffer[ARENA_BYTES - 1]  # a page that is gone ends this process
        found += _claims(said)
    return _End(ended, said, exit.log, tuple(found))


def _claims(said: bytes) -> Iterator[DrillBreach]:
    """What a program boasts of, and whether its answer confuses those who read answers."""
    for read in (candidate_reply, launcher_reply):
        with contextlib.suppress(ValueError):
            read(said)
    with contextlib.suppress(ValueError, RecursionError):
        reply = json.loads(said)
        if isinstance(reply, dict):
            yield from (DrillBreach(fault=DrillFault.ESCAPE, what=str(what)) for what in reply.get("boasts", ()))


def _open_files() -> set[tuple[str, str]]:
    found = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):  # the folder's own
            if not (target := str(link.readlink())).startswith("/proc/"):  # which the watcher's thread is reading
                found.add((link.name, target))
    return found
