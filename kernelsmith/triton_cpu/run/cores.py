"""How many threads can run at once: cores of the affinity mask, and no more than the CPU quota of a container.

A quota caps CPU time per period, so threads beyond it do not run faster: all of them stop until the period is over, in
the middle of a launch. Invariant: at least 1, and a machine without control groups has no quota. Used by `pool`
and, for what else control groups limit, by the judge.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_PROC = Path("/proc/self")


def usable_cores() -> int:
    """Threads that can run at once in this process; a fraction of a core in the quota is left to others."""
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota(_PROC)
    return cores if quota is None else max(1, min(cores, int(quota)))


def crowding() -> float:
    """How many threads wanted each usable core in the last minute; 1 where none had to wait."""
    return max(1.0, os.getloadavg()[0] / usable_cores())


def cpu_quota(proc: Path) -> float | None:
    """Cores' worth of CPU time that the control groups of the process at `proc` allow; None where they set no limit.

    A limit of a group holds for the groups inside it, so the least of them counts (cgroups(7); cpu.max: the kernel's
    admin-guide/cgroup-v2; cfs_quota: its scheduler/sched-bwc).
    """
    return min((quota for folder in control_groups(proc, "cpu") if (quota := _quota(folder)) is not None), default=None)


def control_groups(proc: Path, controller: str) -> Iterator[Path]:
    """The folders of the control groups that the process is in, in both versions, inner ones first."""
    try:
        memberships = (proc / "cgroup").read_text().splitlines()
        mounts = (proc / "mountinfo").read_text().splitlines()
    except OSError:
        return  # a kernel without control groups, or no /proc
    paths = {}
    for line in memberships:
        number, controllers, path = line.split(":", 2)
        if number == "0" or controller in controllers.split(","):
            paths["cgroup2" if number == "0" else "cgroup"] = PurePosixPath(path)
    for line in mounts:
        place, _, system = line.partition(" - ")
        kind, _, options = system.split(" ", 2)
        if kind in paths and (kind == "cgroup2" or controller in options.split(",")):
            root, mount = place.split(" ")[3:5]
            yield from _up(Path(mount), paths[kind], root)


def _up(mount: Path, path: PurePosixPath, root: str) -> Iterator[Path]:
    """From a group up to the mount, which shows the groups from `root` on (a container's own, for instance)."""
    inside = path.relative_to(root) if path.is_relative_to(root) else PurePosixPath()
    if ".." not in inside.parts:
        for part in (inside, *inside.parents):
            if part != PurePosixPath():
                yield mount / part
    yield mount


def _quota(folder: Path) -> float | None:
    """What one group allows: `cpu.max` holds a quota or "max", and a period; the older files -1 for no quota."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        allowed = int((folder / "cpu.cfs_quota_us").read_text())
        return None if allowed <= 0 else allowed / int((folder / "cpu.cfs_period_us").read_text())
    return None
