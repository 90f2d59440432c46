"""What a compiler made of a kernel for a device that need not be here: plain numbers, and how they fit the device.

Invariant: a build is a claim of a confined compiler and nothing that was measured; every number has its unit in its
name or its docstring, and what a compiler does not tell is None. `offline` makes these, verdicts and reports hold them.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from kernelsmith.base import Frozen
from kernelsmith.outcome import Outcome
from kernelsmith.text import clean

MOST_CHARS = 4000
_Count = Annotated[int, Field(ge=0, lt=2**63)]
_Name = Annotated[str, Field(max_length=512), AfterValidator(clean)]
_Words = Annotated[str, Field(max_length=MOST_CHARS), AfterValidator(clean)]


class Chip(Frozen):
    """What a compiler is told of a device: Triton's `GPUTarget`."""

    backend: str = Field(pattern=r"^[a-z]+$")
    arch: int | str
    warp_size: int = Field(ge=0, le=1024)

    @property
    def label(self) -> str:
        return f"{self.backend} {self.arch}"


class GridLimits(Frozen):
    """The most programs of a launch, by axis and over all axes; None: no limit that is known."""

    axes: tuple[int | None, int | None, int | None] = (None, None, None)
    total: int | None = None

    def excess(self, grid: tuple[int, int, int], programs: int, whose: str) -> tuple[str, ...]:
        """What is too much of a launch on `whose` device, and what to do; `programs` are those of one launch."""
        found = [
            f"its grid has {size:,} programs along axis {axis}, {whose} allows {most:,}: "
            + ("put the long axis first, or " if axis else "")
            + "let a program do more"
            for axis, (size, most) in enumerate(zip(grid, self.axes, strict=True))
            if most is not None and size > most
        ]
        if self.total is not None and programs > self.total:
            found.append(
                f"launches {programs:,} programs, {whose} allows {self.total:,}: loop over blocks in a program"
            )
        return tuple(found)


class Resources(Frozen):
    """What one program of a kernel takes, and what its instructions are. Registers are 32 bits wide."""

    warps: int = Field(gt=0, le=1024)
    """Of one program; more than its `num_warps` where the compiler specialises warps."""
    threads: int = Field(gt=0, le=1 << 16)
    sub_group: int | None = Field(default=None, gt=0, le=1024)
    """Threads of a warp, where the compiler chooses it for each kernel (Intel)."""
    registers: _Count | None = None
    """Per thread; on AMD vector and accumulation registers together."""
    scalar_registers: _Count | None = None
    """Per wavefront."""
    spill_bytes: _Count | None = None
    """Per thread: values that had no register and are stored to memory."""
    stack_bytes: _Count | None = None
    """Per thread, spilled values among them."""
    shared_bytes: _Count | None = None
    """Per program: shared memory (NVIDIA), LDS (AMD), shared local memory (Intel)."""
    tensor_memory_columns: _Count | None = None
    """Per program, of Blackwell's tensor memory."""
    unified_buffer_bytes: _Count | None = None
    l1_bytes: _Count | None = None
    l0c_bytes: _Count | None = None
    spirv_bytes: _Count | None = None
    """Of the whole module, which the driver's compiler turns into instructions (Intel)."""
    scalar_loops: _Count | None = None
    """Loops that handle one element at a time on a vector machine."""
    barriers: _Count | None = None
    matrix_instructions: dict[_Name, _Count] = Field(default={}, max_length=64)
    """Instructions of the matrix units in the text, by name."""
    loads: dict[Annotated[int, Field(gt=0, le=1024)], _Count] = Field(default={}, max_length=16)
    """Instructions that load from global memory, by bytes per thread."""
    stores: dict[Annotated[int, Field(gt=0, le=1024)], _Count] = Field(default={}, max_length=16)


class Found(Frozen):
    """A construct that some devices lack or are slow at (`targets.Construct`), where it occurs first."""

    what: str = Field(pattern=r"^[a-z0-9_]+$", max_length=64)
    line: int | None = None
    """Of the candidate's source."""


class Run(Frozen):
    """A load whose lanes read neighbouring elements."""

    line: int | None = None
    """Of the candidate's source."""
    elements: int = Field(gt=0, lt=2**31)
    """Of the block that is loaded."""
    together: int = Field(gt=0, lt=2**31)
    """That are neighbours: the extent of the block along that axis."""
    element_bytes: int = Field(gt=0, le=64)

    def wide(self, threads: int, nbytes: int) -> bool:
        """Whether so many threads could each load so many bytes at once, were all aligned."""
        return min(self.together, self.elements // threads) * self.element_bytes >= nbytes


class Build(Frozen):
    """One kernel, as the candidate launches it, compiled for one chip."""

    kernel: _Name
    workloads: tuple[str, ...] = ()
    """Where it is launched."""
    grid: tuple[_Count, _Count, _Count] = (1, 1, 1)
    """The largest of its launches, axis by axis."""
    programs: _Count = 1
    """The most programs of one launch."""
    dtypes: tuple[_Name, ...] = ()
    """Element types that it is given, by torch's names."""
    options: dict[str, bool | int | None] = {}
    """Of those that it was compiled with, what the source names: `num_warps`, `num_stages`, ..."""
    chip: Chip
    outcome: Outcome = Outcome.PASSED
    """PASSED: there is a binary, whether or not it fits."""
    message: _Words = ""
    line: int | None = None
    """Of the candidate's source, where the front end blames one."""
    resources: Resources | None = None
    constructs: tuple[Found, ...] = Field(default=(), max_length=64)
    """Whatever the devices think of them."""
    runs: tuple[Run, ...] = Field(default=(), max_length=64)
    configs: tuple[_Words, ...] = Field(default=(), max_length=64)
    """Configurations of an autotuned kernel that come to this."""
    taken: bool = True
    """Whether calls take it; False: only other configurations than those that won, or that an ordinary call takes."""
    seconds: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Wall time of the compilation, also where it was known already."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if (self.outcome is Outcome.PASSED) != (self.resources is not None):
            raise ValueError("a kernel that was compiled has resources, another one has none")
        if self.outcome is not Outcome.PASSED and not self.message:
            raise ValueError("a failure says why")
        return self


class Limiter(StrEnum):
    """What keeps more programs from being resident on a multiprocessor."""

    REGISTERS = "registers"
    SHARED = "shared memory"
    WARPS = "warps"
    THREADS = "threads"
    PROGRAMS = "programs"


class Occupancy(Frozen):
    """Programs that are resident on one multiprocessor at once; computed, not measured."""

    programs: int = Field(ge=0)
    warps: int = Field(ge=0)
    share: float = Field(ge=0, le=1)
    """Of the warps that the multiprocessor can hold."""
    limiter: Limiter


class Fit(Frozen):
    """One kernel on one target: a row of `check --also`."""

    target: str
    kernel: str = ""
    """Empty where nothing was compiled for the target at all."""
    dtypes: tuple[str, ...] = ()
    """Element types that it is given, by torch's names."""
    workloads: tuple[str, ...] = ()
    """Where it is launched."""
    configs: tuple[str, ...] = ()
    """Configurations of an autotuned kernel that come to this."""
    outcome: Outcome | None
    """PASSED: it compiles and fits. None: nothing here can tell, and `message` says what to install."""
    message: str = ""
    line: int | None = None
    resources: Resources | None = None
    shared_limit_bytes: int | None = None
    occupancy: Occupancy | None = None
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    """Wall time of the compilation."""

    @property
    def wrong(self) -> bool:
        """Known not to run there."""
        return self.outcome is not None and self.outcome is not Outcome.PASSED


def unusable(fits: Sequence[Fit]) -> tuple[Fit, ...]:
    """Rows that keep a kernel from running: an autotuner passes over a configuration where another one works."""
    fine = {(fit.target, fit.kernel, where) for fit in fits if not fit.wrong for where in fit.workloads}
    return tuple(
        fit
        for fit in fits
        if fit.wrong and not (fit.configs and all((fit.target, fit.kernel, where) in fine for where in fit.workloads))
    )
