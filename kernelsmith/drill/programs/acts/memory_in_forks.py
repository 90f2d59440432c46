"""Fills memory in many processes, each of them small; the tree's sum must be held against the limit."""

import os
import time

ENDS = ("memory", "processes")


def act(stage):
    for _ in range(100):
        try:
            child = os.fork() == 0
        except OSError:  # as many as there may be: they are noticed now
            time.sleep(100)
        if child:
            hoard = b"x" * (32 << 20)
            time.sleep(100)
            os._exit(not hoard)


def twin(stage):
    hoard = b"x" * (64 << 20)  # shared by its forks, so counted once
    pids = []
    for _ in range(4):
        if (pid := os.fork()) == 0:
            time.sleep(0.1)
            os._exit(hoard[0] != 120)
        pids.append(pid)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in pids)
