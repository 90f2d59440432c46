"""Processes whose death is withheld, for real: a stand-in for one that waits for a device and does not come back.

A traced process that is killed stops once more on its way out (PTRACE_O_TRACEEXIT, ptrace(2)), and stays there, deaf to
every signal, until its tracer lets it go.
"""

from __future__ import annotations

import ctypes
import os
import threading
from types import TracebackType

import pytest

PTRACE_SEIZE, PTRACE_O_TRACEEXIT = 0x4206, 0x40
_LIBC = ctypes.CDLL(None, use_errno=True)


class Withheld:
    """Until the end of the `with` block (or `release`), `pid` cannot die. Skips the test where tracing is forbidden."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._error = 0
        self._ready = threading.Event()
        self._released = threading.Event()
        self._tracer = threading.Thread(target=self._trace, daemon=True)

    def _trace(self) -> None:
        """The kernel lets the process go when the thread that traces it ends."""
        arguments = (ctypes.c_long(self._pid), ctypes.c_void_p(), ctypes.c_void_p(PTRACE_O_TRACEEXIT))
        if _LIBC.ptrace(ctypes.c_long(PTRACE_SEIZE), *arguments):
            self._error = ctypes.get_errno()
        self._ready.set()
        if not self._error:
            self._released.wait()

    def release(self) -> None:
        """It may die now."""
        self._released.set()
        self._tracer.join()

    def __enter__(self) -> Withheld:
        self._tracer.start()
        self._ready.wait()
        if self._error:
            pytest.skip(f"processes of another user cannot be traced here: {os.strerror(self._error)}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.release()
