"""What a checked build can find; see `kernelsmith.faults`."""

from kernelsmith.faults import CheckedLaunchError, Fault, FaultKind, Schedule

__all__ = ["CheckedLaunchError", "Fault", "FaultKind", "Schedule"]
