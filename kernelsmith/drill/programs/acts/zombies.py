"""Leaves thousands of dead children uncollected, each of which keeps a process number; the limit holds for them too."""

import os

ENDS = ("answered", "processes", "timeout")


def act(stage):
    for _ in range(5000):
        try:
            if os.fork() == 0:
                os._exit(0)
        except OSError:
            return
    stage.boasts.append("keeps 5000 zombies")


def twin(stage):
    for _ in range(50):
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitpid(pid, 0)
