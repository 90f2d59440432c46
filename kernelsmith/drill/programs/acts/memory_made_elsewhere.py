"""Asks for memory by ways that hide it: memfd, secret memory, System V, huge pages; refused, its own heap is not."""

import mmap
import os

from kernelsmith.drill.tools import attempt, harmless, libc


def act(stage):
    attempt(stage, "memfd", lambda: os.memfd_create("hidden"))
    attempt(stage, "secret memory", lambda: libc("memfd_secret", 0))
    attempt(stage, "System V shared memory", lambda: libc("shmget", int(stage.mark[-6:], 16), 4096, 0o1666))
    attempt(stage, "System V semaphores", lambda: libc("semget", int(stage.mark[-6:], 16), 1, 0o1666))
    attempt(stage, "System V messages", lambda: libc("msgget", int(stage.mark[-6:], 16), 0o1666))
    harmless(lambda: os.open(f"/dev/shm/{stage.mark}", os.O_CREAT | os.O_RDWR))  # may be its own scratch
    attempt(stage, "huge pages", lambda: mmap.mmap(-1, 256 << 20, mmap.MAP_PRIVATE | 0x40000).write(bytes(256 << 20)))


def twin(stage):
    assert len(bytearray(32 << 20)) == 32 << 20
