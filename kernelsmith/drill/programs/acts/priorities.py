"""Asks for real-time scheduling, priority and processors, for itself and others; only less may be had."""

import os

from kernelsmith.drill.tools import attempt, harmless


def act(stage):
    for policy in (os.SCHED_FIFO, os.SCHED_RR):
        attempt(
            stage, "real-time scheduling", lambda policy=policy: os.sched_setscheduler(0, policy, os.sched_param(1))
        )
    attempt(stage, "a higher priority", lambda: os.nice(-5) >= 0 or 1 / 0)
    for pid in (stage.victim, stage.sibling):
        if pid != os.getpid():
            harmless(lambda pid=pid: os.setpriority(os.PRIO_PROCESS, pid, 19))
            harmless(lambda pid=pid: os.sched_setaffinity(pid, {0}))
            harmless(lambda pid=pid: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))


def twin(stage):
    assert os.sched_getaffinity(0)
    assert os.getpriority(os.PRIO_PROCESS, 0) <= 19
