"""What a confined child may use, how it ended, and which layers of confinement hold on this machine: plain data.

Invariant: nothing here was said by the child itself except `Exit.log`, which is its output, cut to a tail and stripped
of control characters; it is text to quote, never to obey. Judges set limits and read exits; `doctor` shows layers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

SCRATCH_INODES = 16384  # files and folders that a child may have in its scratch


class Layer(StrEnum):
    """A means of confinement that can be left out on purpose (`Zygote(without=...)`), or that a machine may lack."""

    NAMESPACES = "namespaces"
    """All, those that root may have among them."""
    USER_NAMESPACES = "user namespaces"
    LANDLOCK = "landlock"
    SECCOMP = "seccomp"


class Ending(StrEnum):
    """How a child ended. Exit status 0 never means success: only what the judge itself verified does."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    DEVICE_MEMORY = "device_memory"
    PROCESSES = "processes"
    LOG_FLOOD = "log_flood"
    DISK = "disk"
    KILLED = "killed"  # by the judge, which needed it no more
    LOST = "lost"  # the zygote died: infrastructure, not the child's fault
    STUCK = "stuck"  # killed, but it does not die: it waits for the kernel or a device


@dataclass(frozen=True)
class Limits:
    """Bounds on one child and everything it starts, enforced from outside; going over one ends the whole tree.

    `memory_bytes` counts what the tree takes beyond what the fork inherits: its own and swapped pages, page tables,
    arenas whether mapped or only held, files in the scratch, and what its pipes can hold.
    `processes` counts threads too; `threads` is only advice, handed to the role as KERNELSMITH_THREADS. `device_bytes`
    bounds the memory of an accelerator: inside by the role's own allocator, outside where the driver can be asked.
    """

    seconds: float = 60.0
    memory_bytes: int = 4 << 30
    processes: int = 128
    file_bytes: int = 512 << 20
    scratch_bytes: int = 512 << 20
    log_bytes: int = 4 << 20
    threads: int = 1
    device_bytes: int | None = None

    def __post_init__(self) -> None:
        for name in ("seconds", "memory_bytes", "processes", "file_bytes", "scratch_bytes", "log_bytes", "threads"):
            if not getattr(self, name) > 0:
                raise ValueError(f"limit {name} must be positive, not {getattr(self, name)!r}")
        if self.device_bytes is not None and self.device_bytes <= 0:
            raise ValueError(f"limit device_bytes must be positive, not {self.device_bytes!r}")


@dataclass(frozen=True)
class Exit:
    """The end of a child: status or signal as the kernel reported it, the tail of its output, what it used.

    `peak_bytes` counts as the limit does and is sampled, so a shorter peak can be missed; `seconds` is wall time since
    `spawn`; `survivor` is the process of a stuck child that does not die, by its number in the judge's namespace.
    """

    ending: Ending
    status: int | None = None
    signal: str | None = None
    log: str = ""
    peak_bytes: int = 0
    seconds: float = 0.0
    survivor: int | None = None

    def excess(self, limits: Limits) -> str | None:
        """Which of the limits it went over, with what was allowed; None for other endings."""
        return {
            Ending.MEMORY: f"used {_mib(self.peak_bytes)} of memory, where {_mib(limits.memory_bytes)} are allowed",
            Ending.DEVICE_MEMORY: f"used more memory of the card than the {_mib(limits.device_bytes or 0)} allowed",
            Ending.PROCESSES: f"started more than {limits.processes} processes and threads",
            Ending.LOG_FLOOD: f"printed more than {_mib(limits.log_bytes)}",
            Ending.DISK: f"wrote more than {_mib(limits.scratch_bytes)} of files, or {SCRATCH_INODES} of them",
        }.get(self.ending)

    def describe(self) -> str:
        """One line for a person, without the log."""
        if self.ending is Ending.EXITED:
            return f"exited with status {self.status}"
        if self.ending is Ending.SIGNALLED:
            return f"died of {self.signal}"
        if self.ending is Ending.STUCK:
            return f"was killed, but process {self.survivor} does not die: it waits for the kernel or a device"
        return f"ended: {self.ending}"


@dataclass(frozen=True)
class Layers:
    """Which layers hold for children of a zygote, found by rehearsal; `notes` says why others do not."""

    user_namespace: bool = False
    pid_namespace: bool = False
    mount_namespace: bool = False
    network_namespace: bool = False
    private_view: bool = False
    """Files beyond those that running kernels takes are not denied but absent."""
    readonly_mounts: bool = False
    fresh_proc: bool = False
    landlock_abi: int = 0
    seccomp: bool = False
    rlimits: bool = False
    uid: int = 0
    other_uid: bool = False
    notes: tuple[str, ...] = field(default=())

    @property
    def held(self) -> tuple[str, ...]:
        """Names of the layers that hold, in words for a person."""
        return tuple(name for name, holds in self._named().items() if holds)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of those that do not."""
        return tuple(name for name, holds in self._named().items() if not holds)

    def _named(self) -> dict[str, bool]:
        return {
            "user namespace": self.user_namespace,
            "pid namespace": self.pid_namespace,
            "mount namespace": self.mount_namespace,
            "network namespace": self.network_namespace,
            "private view": self.private_view,
            "read-only mounts": self.readonly_mounts,
            "own /proc": self.fresh_proc,
            f"Landlock (ABI {self.landlock_abi})" if self.landlock_abi else "Landlock": self.landlock_abi > 0,
            "seccomp": self.seccomp,
            "resource limits": self.rlimits,
        }

    @property
    def sound(self) -> bool:
        """The least that may run untrusted code: no file of the user in reach, no dangerous system call, and limits
        that bind, for a bomb of processes is faster than anyone who watches."""
        files = self.landlock_abi > 0 or (self.mount_namespace and self.readonly_mounts)
        return files and self.seccomp and self.rlimits


def _mib(nbytes: int) -> str:
    return f"{nbytes / 2**20:.0f} MiB"
