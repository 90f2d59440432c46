"""Fills shared pages and lets go of them, so that no process's resident size shows them; must be refused or counted."""

import mmap

ENDS = ("exited", "memory")


def act(stage):
    hoard = []
    for _ in range(64):
        hoard.append(mmap.mmap(-1, 16 << 20))
        hoard[-1].write(b"x" * (16 << 20))
        hoard[-1].madvise(mmap.MADV_DONTNEED)


def twin(stage):
    private = mmap.mmap(-1, 16 << 20, mmap.MAP_PRIVATE)
    private.write(b"x" * (16 << 20))
