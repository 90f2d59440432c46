"""Writes to /proc/sys, /sys and the like; none of it may change."""

import glob
import os

from kernelsmith.drill.tools import attempt


def act(stage):
    files = [
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
    ]
    files += [
        "/proc/sys/kernel/ns_last_pid",
        "/proc/sys/fs/file-max",
        "/proc/irq/default_smp_affinity",
        "/sys/power/state",
    ]
    files += [
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/sys/devices/system/cpu/cpu1/online",
        "/sys/fs/cgroup/cgroup.procs",
    ]
    files += glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor") + [
        "/proc/self/attr/current",
        "/proc/1/oom_score_adj",
    ]
    for path in files:
        if not path.startswith(f"/proc/{os.getpid()}/"):
            attempt(stage, f"opened {path} to write", lambda path=path: os.close(os.open(path, os.O_WRONLY)))
    attempt(stage, "became less likely to be killed", lambda: open("/proc/self/oom_score_adj", "w").write("-1000"))


def twin(stage):
    assert os.cpu_count() and os.sysconf("SC_PAGE_SIZE")
