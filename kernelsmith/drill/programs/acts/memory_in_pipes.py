"""Fills pipes, in one process after another, which belong to no process's memory; must be counted, or be few."""

import os
import time

ENDS = ("memory", "processes")


def act(stage):
    for _ in range(100):
        pipes = []
        try:
            while True:
                pipes.append(os.pipe())
                os.set_blocking(pipes[-1][1], False)
                os.write(pipes[-1][1], b"x" * (1 << 20))
        except OSError:
            if os.fork():
                time.sleep(100)
            pipes.clear()
            os.closerange(4, 1 << 16)


def twin(stage):
    reader, writer = os.pipe()
    os.write(writer, b"x" * 4096)
    assert len(os.read(reader, 4096)) == 4096
