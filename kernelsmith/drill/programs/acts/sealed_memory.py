"""Shrinks, punches, reseals and remaps memory shared with the judge; nothing sealed may change or vanish."""

import ctypes
import fcntl
import mmap
import os

from kernelsmith.drill.tools import attempt, harmless, libc


def act(stage):
    for fd in stage.fds:
        attempt(stage, "shrank it", lambda fd=fd: os.ftruncate(fd, 0))
        attempt(stage, "grew it", lambda fd=fd: os.ftruncate(fd, 1 << 30))
        attempt(stage, "sealed it", lambda fd=fd: fcntl.fcntl(fd, 1033, 0x8))
        harmless(lambda fd=fd: libc("fallocate", fd, 3, 0, 4096))
        harmless(lambda fd=fd: os.fchmod(fd, 0))
    sealed = stage.fds[1]
    attempt(stage, "wrote to what is sealed", lambda: os.pwrite(sealed, b"evil", 0))
    attempt(stage, "mapped what is sealed to write", lambda: mmap.mmap(sealed, 4096, mmap.MAP_SHARED))
    attempt(stage, "opened it anew", lambda: os.pwrite(os.open(f"/proc/self/fd/{sealed}", os.O_RDWR), b"evil", 0))
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    address = library.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, sealed, ctypes.c_long(0))
    harmless(lambda: libc("mprotect", ctypes.c_void_p(address), 4096, 3))
    harmless(lambda: os.pwrite(os.open("/proc/self/mem", os.O_RDWR), b"evil", address))
    harmless(lambda: libc("madvise", ctypes.c_void_p(address), 4096, 9))  # MADV_REMOVE


def twin(stage):
    shared = mmap.mmap(stage.fds[0], 4096, mmap.MAP_SHARED)
    shared[:4] = b"mine"
    assert mmap.mmap(stage.fds[1], 4096, mmap.MAP_SHARED, mmap.PROT_READ)[:4] == b"true"
