"""What is raised where a process of a job does not die, or says what cannot be believed: sessions and rooms find it,
`rooms` and `evaluate` decide what it costs."""

from __future__ import annotations

from kernelsmith.errors import InfrastructureError
from kernelsmith.sandbox.limits import Exit


class StuckError(InfrastructureError):
    """A process of the job was killed and does not die, so what it holds (memory, a device) is not free."""

    def __init__(self, what: str, end: Exit) -> None:
        super().__init__(f"the {what} process {end.describe()}", "`kernelsmith doctor` shows the state of the devices")
        self.pid = end.survivor


class DoubtError(InfrastructureError):
    """A launcher that has run kernels says that the machine is broken: it is, or a kernel has overwritten the launcher.
    Whoever has a device that works should blame the candidate."""
