"""Signals the judge, the zygote, a sibling and everyone; none may arrive, its own children hear it."""

import os
import signal
import time

from kernelsmith.drill.tools import attempt, harmless, libc


def act(stage):
    for pid in {stage.victim, stage.sibling} - {0, 1, os.getpid()}:
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
            harmless(lambda pid=pid, number=number: os.kill(pid, number))
            harmless(lambda pid=pid, number=number: os.killpg(pid, number))
            harmless(lambda pid=pid, number=number: signal.pidfd_send_signal(os.pidfd_open(pid), number))
            harmless(lambda pid=pid, number=number: libc("sigqueue", pid, int(number), 0))
    for pid in {stage.judge, stage.zygote, os.getppid()} - {0, 1, os.getpid()}:
        attempt(stage, f"signalled {pid}", lambda pid=pid: os.kill(pid, signal.SIGURG) or True)  # which does nothing
    harmless(lambda: os.kill(-1, signal.SIGURG))


def twin(stage):
    if (pid := os.fork()) == 0:
        time.sleep(100)
    os.kill(pid, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM
