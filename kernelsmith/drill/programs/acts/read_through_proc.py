"""Reads other processes through /proc: environment, memory, root, open files; only its own may be seen."""

import os
from pathlib import Path

from kernelsmith.drill.tools import attempt


def act(stage):
    others = {"judge": stage.judge, "zygote": stage.zygote, "victim": stage.victim, "parent": os.getppid()}
    if not stage.own_pids:
        others["sibling"] = stage.sibling
    for name, pid in others.items():
        for what in ("environ", "cmdline", "maps", "mem", "stack", "auxv", "cwd/secret", "root/etc/passwd"):
            attempt(
                stage, f"the {name}'s {what}", lambda pid=pid, what=what: open(f"/proc/{pid}/{what}", "rb").read(4000)
            )
        for what in ("fd", "map_files", "task", "ns"):
            attempt(stage, f"the {name}'s {what}", lambda pid=pid, what=what: os.listdir(f"/proc/{pid}/{what}"))
    for pid in range(1, 400):
        if pid != os.getpid():
            attempt(stage, "some environment", lambda pid=pid: Path(f"/proc/{pid}/environ").read_bytes()[:4000])


def twin(stage):
    if not os.path.exists("/proc/self"):  # empty where parts of /proc are covered and Landlock is missing
        return
    assert Path("/proc/self/status").read_text() and os.listdir("/proc/self/fd")
    assert Path("/proc/cpuinfo").read_text() and Path("/proc/meminfo").read_text()
