"""One file beyond the limit, one of a terabyte of nothing, one that is deleted while it is open; all bounded."""

import os

from kernelsmith.drill.tools import attempt

ENDS = ("answered", "signalled", "disk")


def act(stage):
    large = os.open("large", os.O_CREAT | os.O_RDWR)
    attempt(stage, "a file beyond the limit", lambda: os.posix_fallocate(large, 0, 32 << 20))
    attempt(stage, "a terabyte of nothing", lambda: os.truncate("large", 1 << 40))
    gone = os.open("gone", os.O_CREAT | os.O_RDWR)
    os.unlink("gone")
    os.write(gone, b"x" * (4 << 20))


def twin(stage):
    file = os.open("file", os.O_CREAT | os.O_RDWR)
    os.posix_fallocate(file, 0, 1 << 20)
