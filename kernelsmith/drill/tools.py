"""What the hostile programs share. Runs in confined children and imports next to nothing.

Invariant: nothing here helps to confine; `attempt` records only what a program claims to have managed.
"""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
from collections.abc import Callable
from typing import Any

_CALLS = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clone": (56, 220),
    "clone3": (435, 435),
    "fsopen": (430, 430),
    "io_uring_setup": (425, 425),
    "kcmp": (312, 272),
    "keyctl": (250, 219),
    "memfd_secret": (447, 447),
    "move_pages": (279, 239),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "sched_setattr": (314, 274),
    "userfaultfd": (323, 282),
}
"""System calls without a function in libc: numbers on x86_64 and aarch64 (syscall_64.tbl, asm-generic/unistd.h)."""
REFUSED = (OSError, ValueError, OverflowError, subprocess.SubprocessError)
"""What an attempt that came to nothing raises."""


def libc(name: str, *arguments: Any) -> int:
    """A function of libc, or a system call that it lacks; raises OSError where it returns a negative number."""
    library = ctypes.CDLL(None, use_errno=True)
    if name in _CALLS:
        number = _CALLS[name][platform.machine() == "aarch64"]
        result = library.syscall(ctypes.c_long(number), *map(_wide, arguments))
    else:
        result = getattr(library, name)(*map(_wide, arguments))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return int(result)


def _wide(argument: Any) -> Any:
    return ctypes.c_long(argument) if isinstance(argument, int) else argument


def attempt(stage: Any, what: str, act: Callable[[], Any]) -> Any:
    """Do something that must be refused. What it returns is taken out to the judge; success is boasted of."""
    try:
        got = act()
    except REFUSED:
        return None
    stage.boasts.append(what)
    stage.loot.append(repr(got)[:4000])
    return got


def harmless(act: Callable[[], Any]) -> Any:
    """Do something that may seem to work: only its effect outside counts."""
    try:
        return act()
    except REFUSED:
        return None
