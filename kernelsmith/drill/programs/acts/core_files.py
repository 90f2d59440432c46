"""Rewrites where core files go and what the process says of itself; nothing outside may change."""

import os

from kernelsmith.drill.tools import attempt, harmless, libc


def act(stage):
    attempt(stage, "may set the core pattern", lambda: open("/proc/sys/kernel/core_pattern", "w").close())
    harmless(lambda: libc("prctl", 35, 8, 0, 0, 0))  # PR_SET_MM
    harmless(lambda: libc("prctl", 15, b"kernelsmith", 0, 0, 0))
    harmless(lambda: libc("personality", 0x0040000))
    harmless(lambda: libc("prctl", 0x59616D61, -1, 0, 0, 0))  # PR_SET_PTRACER, anyone


def twin(stage):
    assert libc("prctl", 15, b"honest", 0, 0, 0) == 0
    if os.path.exists("/proc/self"):  # empty where parts of /proc are covered and Landlock is missing
        assert open("/proc/self/comm").read() == "honest\n"
