"""Locks its memory and marks it for merging, so that the machine runs short; the limit holds."""

import mmap

from kernelsmith.drill.tools import harmless, libc

ENDS = ("answered", "memory")


def act(stage):
    harmless(lambda: libc("mlockall", 7))
    hoard = []
    for _ in range(64):
        hoard.append(mmap.mmap(-1, 4 << 20, mmap.MAP_PRIVATE))
        harmless(lambda: hoard[-1].madvise(12))
        hoard[-1].write(bytes(4 << 20))


def twin(stage):
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE)
    page.write(bytes(4096))
