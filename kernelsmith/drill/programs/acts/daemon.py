"""Detaches by double fork, new session and closed files; must not outlive its parent."""

import os
import time

from kernelsmith.drill.tools import harmless

ENDS = ("exited",)


def act(stage):
    if os.fork() == 0:
        harmless(os.setsid)
        harmless(lambda: os.setpgid(0, 0))
        if os.fork() == 0:
            os.closerange(0, 100)
            time.sleep(100)
        os._exit(0)
    time.sleep(0.05)
    os._exit(0)


def twin(stage):
    if (pid := os.fork()) == 0:
        os._exit(0)
    os.waitpid(pid, 0)
