"""What a kernel is expected to take on a device that is not here: counted work, and what a cost model makes of it.

Invariant: nothing in here was measured on the device, and no number of it ever becomes a timing. `offline` makes these,
verdicts and reports hold them and call them estimates.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from kernelsmith.base import Frozen
from kernelsmith.text import clean

_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Microseconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Name = Annotated[str, Field(max_length=512), AfterValidator(clean)]


class Unit(StrEnum):
    """What does an operation: the matrix unit by the width of its operands, the vector unit by that of its elements."""

    MATRIX_16 = "matrix, 16 bit"
    MATRIX_32 = "matrix, 32 bit"
    MATRIX_8 = "matrix, 8 bit"
    VECTOR_16 = "vector, 16 bit"
    VECTOR_32 = "vector, 32 bit"
    VECTOR_64 = "vector, 64 bit"
    SPECIAL = "special functions"
    SCALAR = "scalar"


class Work(Frozen):
    """What was counted of one kernel's launches on one workload (`offline.count`); all bytes of global memory."""

    kernel: _Name
    launches: _Count = 1
    programs: _Count = 1
    """Of all its launches together."""
    read_bytes: _Count = 0
    """In whole transactions of `transaction_bytes`, each as often as a program asked for it."""
    written_bytes: _Count = 0
    distinct_bytes: _Count = 0
    """Of memory that was touched at all, in whole transactions: the least that must move."""
    again_bytes: _Count = 0
    """Of what was read and written, that which the same program had touched before."""
    rounds: _Count = 0
    """How often programs wait for loads: entries of loop bodies and branches that load, over all programs."""
    asked_bytes: _Count = 0
    """Of the elements that were asked for: below `read_bytes + written_bytes` where accesses are not coalesced."""
    transaction_bytes: int = Field(default=32, ge=1, le=4096)
    atomics: _Count = 0
    operations: dict[Unit, _Count] = Field(default={}, max_length=len(Unit))
    """By unit; a fused multiply-add is two."""
    issues: dict[Unit, _Count] = Field(default={}, max_length=len(Unit))
    """The same without regard to how many elements each has: operations on whole blocks, by all programs."""


class Counts(Frozen):
    """The work of every kernel on one workload."""

    workload: str
    weight: _Weight = 1.0
    needed_bytes: _Count
    """Of the operator's inputs and outputs, each once."""
    workspace_bytes: _Count = 0
    """What a call allocates beside its outputs."""
    kernels: tuple[Work, ...] = Field(max_length=512)
    """What torch does on the device beside them, too."""
    assumed: tuple[str, ...] = Field(default=(), max_length=16)
    missing: tuple[str, ...] = Field(default=(), max_length=16)
    """Why the work of a kernel is not known; nothing can be estimated then."""


class Limit(StrEnum):
    """What takes longest, in the words of a report."""

    MEMORY = "memory"
    MATRIX = "matrix unit"
    VECTOR = "vector unit"
    SPECIAL = "special functions"
    SCALAR = "scalar loops"
    LATENCY = "too few programs in flight"
    LAUNCH = "launches"


class Estimate(Frozen):
    """What the cost model makes of one workload on one target."""

    target: str
    workload: str
    weight: _Weight = 1.0
    """Of the workload, as in the operator file."""
    microseconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    parts: dict[Limit, _Microseconds] = Field(max_length=len(Limit))
    """What each would take alone; how they combine is the model's business (docs/offline.md)."""
    limit: Limit
    roofline_microseconds: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """The least that any kernel for this workload needs on the target: inputs and outputs moved once."""
    occupancy: float | None = Field(default=None, ge=0, le=1)
    waves: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Programs over those that are resident at once."""
    assumed: tuple[str, ...] = ()
    """Facts that the target's file does not give, and what was taken instead."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.limit not in self.parts:
            raise ValueError("the limit is one of the parts")
        return self

    @property
    def roofline_share(self) -> float:
        """1 where nothing could be faster."""
        return min(1.0, self.roofline_microseconds / self.microseconds)

    @property
    def words(self) -> str:
        """As reports put it."""
        return f"about {self.microseconds:.3g} us, {self.roofline_share:.0%} of the roofline"
