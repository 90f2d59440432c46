"""What a person can change so that a missing layer of confinement holds: one piece of advice per layer.

Invariant: the cause is read from this machine (settings of the kernel, marks of a container), never guessed from a
distribution's name. Used by zygote.py where nothing sound holds, and by the doctor.
"""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from kernelsmith.sandbox.limits import Layers

_FIRST_WITH_LANDLOCK = (5, 13)
_READ_ONLY_MOUNTS = "mount_setattr: Function not implemented"
"""What kernels before 5.12 say when namespaces are tried."""
_CONTAINER = (
    "a container runtime refuses it: docker or podman run with --security-opt seccomp=PROFILE where PROFILE allows "
    "unshare, setns, mount, umount2, pivot_root and mount_setattr (or is `unconfined`), and --security-opt "
    "apparmor=unconfined"
)


@dataclass(frozen=True)
class Advice:
    layer: str
    change: str


def advise(layers: Layers, root: Path = Path("/")) -> tuple[Advice, ...]:
    """For each layer that does not hold; `root` is where /proc and the like are looked at."""
    found = []
    if not layers.user_namespace:
        old = any(_READ_ONLY_MOUNTS in note for note in layers.notes)
        found.append(Advice("namespaces", "use Linux 5.12 or newer" if old else _for_namespaces(root)))
    elif not layers.network_namespace:
        change = "allow new network and ipc namespaces"
        found.append(Advice("network namespace", f"{change}; {_CONTAINER}" if _in_container(root) else change))
    if layers.user_namespace and not layers.fresh_proc:
        change = "parts of /proc are covered: docker run --security-opt systempaths=unconfined, podman run "
        found.append(Advice("own /proc", change + "--security-opt unmask=ALL"))
    if not layers.landlock_abi:
        found.append(Advice("Landlock", _for_landlock(root)))
    if not layers.seccomp:
        found.append(Advice("seccomp", f"use x86_64 or aarch64: the calls of {platform.machine()} are not known here"))
    if not layers.rlimits:
        change = (
            "this root can become nobody else, and Linux does not limit root's processes: start kernelsmith (and "
            "bubblewrap) as an ordinary user, or use a container that has more than one uid"
        )
        found.append(Advice("resource limits", change))
    return tuple(found)


def _for_namespaces(root: Path) -> str:
    for name, closed, change in (
        ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or an AppArmor profile with `userns,` for this "
            "Python",
        ),
    ):
        setting = root / "proc/sys" / name
        if setting.is_file() and setting.read_text().strip() == closed:
            return f"{name.replace('/', '.')} is {closed}: {change}"
    return _CONTAINER if _in_container(root) else "allow unprivileged user namespaces"


def _in_container(root: Path) -> bool:
    return (root / ".dockerenv").exists() or (root / "run/.containerenv").exists()


def _for_landlock(root: Path) -> str:
    numbers = tuple(map(int, re.findall(r"\d+", (root / "proc/sys/kernel/osrelease").read_text())[:2]))
    if numbers < _FIRST_WITH_LANDLOCK:
        return f"use Linux {'.'.join(map(str, _FIRST_WITH_LANDLOCK))} or newer, not {'.'.join(map(str, numbers))}"
    modules = root / "sys/kernel/security/lsm"
    active = modules.read_text().strip() if modules.is_file() else "landlock"
    if "landlock" not in active.split(","):
        return f"boot with lsm=landlock,{active}"
    return "enable CONFIG_SECURITY_LANDLOCK in the kernel, or allow its system calls in the container's seccomp profile"
