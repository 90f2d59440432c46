"""Passes shared memory on to children of its own, which keep writing after its end; they must be gone with it."""

import mmap
import os
import time

ENDS = ("exited",)


def act(stage):
    if os.fork() == 0:
        shared = mmap.mmap(stage.fds[0], 4096, mmap.MAP_SHARED)
        while True:
            shared[:4] = os.urandom(4)
            time.sleep(0.001)
    os._exit(0)


def twin(stage):
    if (pid := os.fork()) == 0:
        mmap.mmap(stage.fds[0], 4096, mmap.MAP_SHARED)[:4] = b"mine"
        os._exit(0)
    os.waitpid(pid, 0)
    assert mmap.mmap(stage.fds[0], 4096, mmap.MAP_SHARED)[:4] == b"mine"
