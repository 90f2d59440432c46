"""Shared memory in which tensors cross a process border as raw bytes.

Invariant: an arena's size is sealed at birth, so no holder of its descriptor can shrink it and kill the owner by
SIGBUS. Fresh pages cost ten times what a copy into warm ones does, so owners take arenas from a pool. The judge
creates arenas and sends their descriptors to children (`Child.request(..., fds=[arena.fd])`), which attach them.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import mmap
import os
import threading

# From linux/fcntl.h; `fcntl` names the rest, but not this one (Linux 5.1) on every supported Python.
_F_SEAL_FUTURE_WRITE = 0x10
MOST_KEPT_BYTES = 4 << 30
"""Of one arena that is kept for another use."""


class Arena:
    """`nbytes` of memory behind a sealed memfd (`fd`), mapped at `buffer`.

    What a live child can write may change at any moment: copy first, then look.
    """

    def __init__(self, fd: int, nbytes: int, buffer: mmap.mmap) -> None:
        self.fd = fd
        self.nbytes = nbytes
        self.buffer = buffer

    @classmethod
    def create(cls, nbytes: int, *, name: str = "arena", sealed_for_others: bool = False) -> Arena:
        """New zeroed memory. With `sealed_for_others`, only this mapping can ever write: children read or copy it."""
        if nbytes < 0:
            raise ValueError(f"an arena of {nbytes} bytes")
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, max(nbytes, 1))
            buffer = mmap.mmap(fd, max(nbytes, 1))  # nothing of size 0 can be mapped
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals | (_F_SEAL_FUTURE_WRITE if sealed_for_others else 0))
        except BaseException:
            os.close(fd)
            raise
        return cls(fd, nbytes, buffer)

    @classmethod
    def attach(cls, fd: int, nbytes: int, *, private: bool = False) -> Arena:
        """Map another process's arena and own `fd` from here on: shared and writable, or a private copy."""
        access = mmap.ACCESS_COPY if private else mmap.ACCESS_WRITE
        return cls(fd, nbytes, mmap.mmap(fd, max(nbytes, 1), access=access))

    def clear(self) -> None:
        """Zero every byte; the pages stay."""
        first = ctypes.c_char.from_buffer(self.buffer)
        ctypes.memset(ctypes.addressof(first), 0, self.nbytes)

    def close(self) -> None:
        """Close and unmap; safe to call twice. A tensor or a traceback that still looks at `buffer` keeps it mapped."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        with contextlib.suppress(BufferError):  # unmapped together with the last view of it
            self.buffer.close()

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ArenaPool:
    """Arenas kept warm between uses, in sizes of powers of two; at most `max_idle_bytes` are kept idle. Thread-safe.

    An arena comes back zeroed, since what one candidate was asked and answered must not help the next. Give back only
    when every child that holds its descriptor is dead, or that child can write into the next user's data.
    """

    def __init__(self, *, max_idle_bytes: int = 4 << 30) -> None:
        self._idle: dict[int, list[Arena]] = {}
        self._idle_bytes = 0
        self._max_idle_bytes = max_idle_bytes
        self._lock = threading.Lock()

    def take(self, nbytes: int) -> Arena:
        """An arena of at least `nbytes`, warm if one of that size class is idle."""
        size = max(1 << max(nbytes - 1, 0).bit_length(), mmap.PAGESIZE)
        with self._lock:
            idle = self._idle.get(size)
            arena = idle.pop() if idle else None
            self._idle_bytes -= size if arena else 0
        if arena is None:
            return Arena.create(size, name="pool")
        arena.clear()
        return arena

    def give_back(self, arena: Arena) -> None:
        """Keep it for the next `take`, or free it where enough is kept, and where it is so large that it was hardly
        ever filled: to zero it would take pages that it never had."""
        with self._lock:
            if arena.nbytes <= MOST_KEPT_BYTES and self._idle_bytes + arena.nbytes <= self._max_idle_bytes:
                self._idle.setdefault(arena.nbytes, []).append(arena)
                self._idle_bytes += arena.nbytes
                return
        arena.close()

    def release(self) -> None:
        """Free every idle arena; those taken stay with their users."""
        with self._lock:
            arenas = [arena for idle in self._idle.values() for arena in idle]
            self._idle.clear()
            self._idle_bytes = 0
        for arena in arenas:
            arena.close()
