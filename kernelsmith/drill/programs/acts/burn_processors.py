"""Burns all processors in many processes, and asks for more of them; a sibling must still be served."""

import os

from kernelsmith.drill.tools import harmless, libc

ENDS = ("timeout", "processes", "answered")
SECONDS = 1.0


def act(stage):
    for _ in range(8):
        try:
            if os.fork() == 0:
                break
        except OSError:
            break
    harmless(lambda: os.nice(-20))
    harmless(lambda: libc("sched_setattr", 0, bytes(56), 0))
    while True:
        pass


def twin(stage):
    assert sum(number * number for number in range(200_000))
