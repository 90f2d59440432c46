"""Which processes hold a card's memory, as its driver tells: for limits from outside, and to notice what stays behind.

The driver is asked through its own command, never in this process: where a driver hangs, the command hangs with it and
is left behind, while a library call would take the judge's thread along. Invariant: `uses` comes back in bounded time.
Numbers of processes are those of the driver's pid namespace, so inside a container nothing may match; then nothing is
noticed, and nothing is falsely blamed.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kernelsmith.devices.cards import Card
from kernelsmith.errors import InfrastructureError
from kernelsmith.targets import Target

QUERY_SECONDS = 15.0
"""Without its persistence daemon a driver is set up anew for each query, which takes seconds."""


@dataclass(frozen=True)
class Use:
    """What one process holds."""

    pid: int
    nbytes: int


class Health(Protocol):
    """A way to ask a driver."""

    def uses(self, card: Card) -> tuple[Use, ...]:
        """The processes that hold memory of the card. Raises InfrastructureError where the driver does not answer."""


class NvidiaSmi:
    """NVIDIA's command; `nvidia-smi --help-query-compute-apps` describes the fields."""

    def __init__(self) -> None:
        self._left: list[subprocess.Popen[str]] = []
        """Commands that hang; collected when they end."""

    def uses(self, card: Card) -> tuple[Use, ...]:
        self._left = [process for process in self._left if process.poll() is None]
        command = ["nvidia-smi", "-i", card.known_as, "--query-compute-apps=pid,used_memory"]
        try:
            process = subprocess.Popen(
                [*command, "--format=csv,noheader,nounits"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        except OSError as error:
            raise InfrastructureError(f"nvidia-smi could not be run: {error}") from error
        try:
            said, _ = process.communicate(timeout=QUERY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            assert process.stdout is not None
            process.stdout.close()
            self._left.append(process)  # not awaited: it may wait for the driver, deaf to signals
            raise InfrastructureError(f"nvidia-smi did not answer within {QUERY_SECONDS:g} s") from None
        if process.returncode:
            raise InfrastructureError(f"nvidia-smi failed: {' '.join(said.split())[:300]}")
        fields = [line.split(",") for line in said.splitlines()]
        plain = [(pid.strip(), used.strip()) for pid, used in (pair for pair in fields if len(pair) == 2)]
        return tuple(Use(int(pid), int(used) << 20) for pid, used in plain if pid.isdecimal() and used.isdecimal())


def numbers_match() -> bool:
    """Whether the numbers of our processes are those that a driver tells: in the host's own pid namespace, whose number
    the kernel fixes (PROC_PID_INIT_INO in linux/proc_ns.h)."""
    return Path("/proc/self/ns/pid").readlink() == Path(f"pid:[{0xEFFFFFFC}]")


def health_of(target: Target) -> Health | None:
    """How to ask the driver of this target; None on the CPU, and where the command is not installed."""
    return NvidiaSmi() if target.query == "nvidia-smi" and shutil.which("nvidia-smi") else None
