"""Maps the zero page a million times over, so that only page tables grow; they must be counted."""

import mmap

ENDS = ("memory",)


def act(stage):
    hoard = []
    no_reserve = 0x4000
    for _ in range(32):
        hoard.append(mmap.mmap(-1, 16 << 30, mmap.MAP_PRIVATE | no_reserve))
        hoard[-1].madvise(15)  # MADV_NOHUGEPAGE
        for offset in range(0, 16 << 30, 2 << 20):
            hoard[-1][offset]


def twin(stage):
    reserved = mmap.mmap(-1, 1 << 30, mmap.MAP_PRIVATE | 0x4000)
    reserved[:4096] = bytes(4096)
