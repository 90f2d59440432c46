"""How much memory this machine and the control groups around us leave, now and at most.

Invariant: a container's limit counts like a smaller machine, and page cache that the kernel would give up counts as
free. Admission, the limits of children and that of a quarantined judge go by it.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from kernelsmith.triton_cpu.run.cores import control_groups

_PROC = Path("/proc")


def total_bytes(proc: Path = _PROC) -> int:
    """Memory that exists for us."""
    return min([_meminfo(proc, "MemTotal"), *(limit for limit, _ in _groups(proc))])


def free_bytes(proc: Path = _PROC) -> int:
    """Memory that can be had without swapping anything out."""
    return max(0, min([_meminfo(proc, "MemAvailable"), *(limit - used for limit, used in _groups(proc))]))


def _meminfo(proc: Path, name: str) -> int:
    lines = (proc / "meminfo").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:"))) << 10


def _groups(proc: Path) -> list[tuple[int, int]]:
    """Limit and use of each group around us that has a limit; a limit above the machine's memory is none.

    cgroup v2: memory.max, memory.current, memory.stat (the kernel's admin-guide/cgroup-v2); v1: memory.limit_in_bytes,
    memory.usage_in_bytes (its cgroup-v1/memory). Clean file pages count as used there, and can be given up.
    """
    found = []
    most = _meminfo(proc, "MemTotal")
    for folder in control_groups(proc / "self", "memory"):
        for limit, used, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            with contextlib.suppress(OSError, ValueError):  # not this version, or "max"
                allowed = int((folder / limit).read_text())
                if allowed < most:
                    found.append((allowed, int((folder / used).read_text()) - _cache(folder, cache)))
    return found


def _cache(folder: Path, name: str) -> int:
    lines = (folder / "memory.stat").read_text().splitlines()
    return int(next((line.split()[1] for line in lines if line.startswith(f"{name} ")), 0))
