"""Makes whole process trees stand still and go on: while one is timed, nothing of another may take a core.

Invariant: after `stand_still` has returned True no thread of the tree runs its own code until `go_on`. A stop reaches
every thread of a process at once, and process 1 of a pid namespace as well if it comes from outside (signal(7),
pid_namespaces(7)). watch.py calls it for confined children, the judge's baseline process is stopped by it too.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

STILL = frozenset("TtDZXxI")
"""States of /proc/PID/stat (proc(5)) in which a thread runs no code of its own. `D` too: it waits for the kernel, and
the stop that has been sent meets it before it comes back."""
LONGEST_SECONDS = 10.0
"""A thread that waits for its turn on a busy machine stops when it gets it."""
_LOOK_SECONDS = 0.0002


def stand_still(tree: Callable[[], Sequence[int]], seconds: float = LONGEST_SECONDS) -> bool:
    """Stop every process that `tree` names; False where they dodge it until the time is up.

    Only what is seen twice counts: a process that was not reached yet may have started another one or have sent one
    that had stopped on its way again.
    """
    deadline = time.monotonic() + seconds
    seen: Sequence[int] | None = None
    while time.monotonic() < deadline:
        pids = sorted(tree())
        _send(pids, signal.SIGSTOP)
        still = all(map(_still, pids))
        if still and pids == seen:
            return True
        seen = pids if still else None
        if not still:
            time.sleep(_LOOK_SECONDS)
    return False


def go_on(pids: Sequence[int]) -> None:
    """Let them run again."""
    _send(pids, signal.SIGCONT)


def _send(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has ended
            os.kill(pid, number)


def _still(pid: int) -> bool:
    """Whether no thread of a process runs or will run by itself; one that has ended runs nothing."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                # the name, in brackets, may hold anything; the state follows the last one
                if (task / "stat").read_bytes().rpartition(b")")[2].split()[0].decode() not in STILL:
                    return False
    return True
