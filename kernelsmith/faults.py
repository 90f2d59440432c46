"""What a checked build can find, as data.

A checked kernel goes on after a fault: the access that is wrong does not happen, and a report of it is kept. Invariant:
one `Fault` stands for all faults of one kind at one place in a kernel. Made by `triton_cpu.monitor`, read by the
driver, the plan launcher and the oracle; needs neither Triton nor torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from kernelsmith.errors import KernelsmithError


class FaultKind(StrEnum):
    """Kinds of fault, by what a person would search for."""

    OUT_OF_BOUNDS = "out of bounds"
    """An active lane reads or writes outside of the elements of the tensor it was given."""
    UNWRITTEN = "read of unwritten memory"
    """An active lane reads an element that nobody wrote."""
    RACE = "race"
    """Two program instances access an element, one of them writes, and nothing orders the two."""
    CONFLICT = "conflicting lanes"
    """Two lanes of one store write different values to one element."""
    OFFSET_WRAP = "offset wrap"
    """Integer arithmetic for an address left the range of its type."""
    POISON = "masked-off value used"
    """The result depends on what masked-off lanes of a load without `other` hold, or on a division by zero."""
    DIVISION_BY_ZERO = "division by zero"
    """An integer division or remainder by zero in a scalar."""
    ASSERTION = "assertion"
    """`tl.device_assert` failed."""
    DEADLOCK = "deadlock"
    """Under this order of program instances, one waits for ever for another that has not run."""


class Schedule(StrEnum):
    """The order in which program instances run; a correct kernel is right under each."""

    PARALLEL = "parallel"
    """As in production: first to last, on several threads."""
    REVERSED = "reversed"
    """One after the other, the last one first."""
    SHUFFLED = "shuffled"
    """One after the other, in an order drawn from a seed."""
    DEFERRED = "deferred"
    """One after the other; a program's stores are seen by others only after all have run, or at its next release."""
    INTERLEAVED = "interleaved"
    """By turns, one at a time: at each atomic operation others may get on before it, as a seed decides."""


@dataclass(frozen=True)
class Fault:
    """One report.

    Attributes:
        location: `file:line` of the kernel's source, if the TTIR tells.
        expression: that line of the source, where the file can be read; else the TTIR's name of the operation.
        program: the program instance, as (x, y, z).
        lane: index of the element in the tile, one entry per dimension; None for a scalar or where it is not known.
        tensor: name of the kernel's parameter that the address comes from.
        index: index in that tensor, one entry per dimension; outside of it, (offset in elements,).
        other: for a race, the other program instance.
        detail: what else there is to say: the bytes by which it misses, the two values, the assertion's message.
        count: how many times it happened.
    """

    kind: FaultKind
    kernel: str
    location: str | None
    expression: str | None
    program: tuple[int, int, int]
    lane: tuple[int, ...] | None = None
    tensor: str | None = None
    index: tuple[int, ...] | None = None
    other: tuple[int, int, int] | None = None
    detail: str = ""
    count: int = 1

    def __str__(self) -> str:
        """One readable line."""
        where = f"{self.location}: " if self.location else ""
        what = f"{self.kind.value}: {self.detail}" if self.detail else self.kind.value
        parts = [f"{where}{what}"]
        if self.tensor is not None:
            index = f"[{', '.join(map(str, self.index))}]" if self.index is not None else ""
            parts.append(f"at {self.tensor}{index}")
        parts.append(f"in program {self.program} of {self.kernel}")
        if self.other is not None:
            parts.append(f"against program {self.other}")
        if self.lane is not None:
            parts.append(f"lane {self.lane}")
        text = ", ".join(parts)
        if self.expression:
            text += f": {self.expression}"
        return text if self.count == 1 else f"{text} (and {self.count - 1} more)"


class CheckedLaunchError(KernelsmithError):
    """A launch of a checked build found faults; `faults` holds them."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults
