"""The schema of target files: what a device is, as data.

Invariants: a unit is part of every quantity's name, an unknown key is an error, and where a fact was read is known
(`Target.sources`; `files` sees to it). Whatever is not known of a device is left out. Called by everyone who has to do
with a device, and by nobody who has one in hand: this is all that is known without it.
"""

from __future__ import annotations

import os
import re
from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kernelsmith import keys
from kernelsmith.base import Frozen
from kernelsmith.compiled import GridLimits

Bytes = Annotated[int, Field(ge=1024, description="in bytes: less than 1,024 is some other unit")]
"""Sizes of memories."""
Count = Annotated[int, Field(gt=0)]


class TritonInfo(Frozen):
    """Which Triton compiles for the device, and for what `GPUTarget`."""

    distribution: str
    """Name on the package index: `triton`, `triton-ascend`, ..."""
    at_least: str
    below: str
    """Versions: at_least <= version < below."""
    backend: str
    arch: str | int | None = None
    """None: whatever the driver says of the device that is present."""
    warp_size: int = Field(ge=0)


class Offline(StrEnum):
    """Which family of compilers builds kernels for a device that is not here."""

    CUDA = "cuda"
    HIP = "hip"
    XPU = "xpu"
    ASCEND = "ascend"


class Limits(Frozen):
    """What a kernel may not exceed; None where there is no such limit or where it isn't known."""

    tile_elements: Count | None = None
    """Largest block of one tensor value."""
    grid_programs: Count | None = None
    """Most programs along the first axis of the grid, and along the others unless `grid_other_axes_programs`."""
    grid_other_axes_programs: Count | None = None
    """Most programs along the second and along the third axis of the grid."""
    grid_total_programs: Count | None = None
    """Most programs of a launch, over all axes."""
    threads_per_program: Count | None = None
    registers_per_thread: Count | None = None
    shared_memory_bytes: Bytes | None = None
    """Of one program."""
    missing_dtypes: tuple[str, ...] = ()

    @property
    def grid(self) -> GridLimits:
        others = self.grid_other_axes_programs
        return GridLimits(axes=(self.grid_programs, others, others), total=self.grid_total_programs)


class Multiprocessor(Frozen):
    """The unit that whole programs run on, several at once: an SM of NVIDIA, a CU (or WGP) of AMD, an Xe core."""

    count: Count
    """How many the device has."""
    registers: Count | None = None
    """32-bit registers, of all lanes."""
    register_unit: Count | None = None
    """A warp is given registers in multiples of so many."""
    partitions: Count | None = None
    """Warps are spread over so many parts, each with as many of the registers and warps as the next."""
    threads: Count | None = None
    warps: Count | None = None
    blocks: Count | None = None
    """Most programs at once; None where only the warps limit it."""
    shared_memory_bytes: Bytes | None = None
    """Of all programs on it together."""
    shared_memory_reserved_bytes: int | None = Field(default=None, ge=0)
    """Taken by the system for each program, beside what it asks for."""


class Cores(Frozen):
    """The cores of an Ascend processor and the memories of one of them."""

    cube: Count
    """Matrix units; each belongs to an AI core, and so do as many vector cores as there are to one."""
    vector: Count
    unified_buffer_bytes: Bytes
    """Of one vector core: what vector instructions read and write."""
    l1_bytes: Bytes
    l0a_bytes: Bytes
    l0b_bytes: Bytes
    l0c_bytes: Bytes
    """Accumulators of one cube."""
    vector_alignment_bytes: Count
    """Rows in the unified buffer and in L1 are padded to it."""
    cube_alignment_bytes: Count
    """Rows of the accumulators are padded to it."""


Peak = Literal["measure"] | Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Peaks(Frozen):
    """Upper bounds of the device, without sparsity; the roofline is made of them."""

    memory_gb_per_s: Peak = "measure"
    float32_tflop_per_s: Peak = "measure"
    bfloat16_tflop_per_s: Peak = "measure"
    float16_tflop_per_s: Peak | None = None
    """None: as bfloat16, as far as is known."""


class Toolchain(Frozen):
    """What compiles for the device without it; installed in an environment of its own."""

    distribution: str
    """Name on the package index of the Triton it has."""
    packages: tuple[str, ...] = ()
    """Everything to install, pinned; empty: the Triton that kernelsmith itself runs with will do."""
    python: tuple[Annotated[str, Field(pattern=r"^3\.\d+$")], ...] = ()
    """Versions of Python, such as `3.11`, for which there are packages; empty: any."""

    @model_validator(mode="after")
    def _pinned(self) -> Self:
        for package in self.packages:
            if not re.fullmatch(r"[A-Za-z0-9][\w.-]*==\w[\w.+!-]*", package):
                raise ValueError(f"{package!r} is not pinned: write NAME==VERSION")
        if self.packages and not any(package.startswith(f"{self.distribution}==") for package in self.packages):
            raise ValueError(f"packages lack {self.distribution}==VERSION")
        return self


class Construct(StrEnum):
    """What a kernel may do that some devices cannot, or are slow at. A lint finds these in source or IR."""

    FLOAT64 = "float64"
    FLOAT8 = "float8"
    INT64_MATH = "int64_math"
    """Arithmetic on blocks of int64."""
    INT64_COMPARE = "int64_compare"
    """Compares blocks of int64, but for the mask of a load or store."""
    INT32_COMPARE = "int32_compare"
    """The same of int32."""
    UNSIGNED_INTEGERS = "unsigned_integers"
    DISCRETE_ACCESS = "discrete_access"
    """Addresses of neighbouring lanes that do not follow from one another: indices that were loaded, `%` of lanes."""
    MASKED_LOAD_PADDING = "masked_load_padding"
    """A load with a mask, without `other` and without `care_padding=False`."""
    INLINE_ASSEMBLY = "inline_assembly"
    SORT = "sort"
    DOT_SCALED = "dot_scaled"
    PERMUTE_APART = "permute_apart"
    """Axes that are not neighbours change places."""
    GATHER_NOT_LAST_AXIS = "gather_not_last_axis"
    ATOMIC_INT64 = "atomic_int64"
    ATOMIC_IN_LOOP = "atomic_in_loop"
    RANDOM_NUMBERS = "random_numbers"
    LONG_KERNEL_NAME = "long_kernel_name"
    """More than 49 characters."""
    MANY_WARPS = "many_warps"
    """More warps per program than the device has a use for."""


class LintRule(Frozen):
    """What becomes of a construct on this device."""

    level: Literal["unsupported", "slow"]
    says: str = Field(min_length=1)
    """What happens, in words for a person and for a prompt."""
    instead: str = ""
    """What to write."""
    source: str = Field(min_length=1)
    """Where this was read."""


_HARMLESS = ("/usr/", "/opt/", "/sys/", "/nix/store/")


def is_toolkit(folder: str) -> bool:
    """Whether candidates may read this folder of the host, wherever links and `..` in it lead: nobody's home lies
    there."""
    return all(path.startswith(_HARMLESS) for path in (folder, os.path.realpath(folder)))


class Access(Frozen):
    """What a confined process is let through to beside the system, as patterns of pathlib; empty for the CPU."""

    cards: str | None = Field(default=None, pattern=r"^/dev/")
    """Device nodes of single cards, one each; a process is given one of them."""
    nodes: tuple[str, ...] = ()
    """Device nodes of the driver that every card needs."""
    folders: tuple[str, ...] = ()
    """Toolkits and driver libraries that lie outside the system's own folders."""
    environment: tuple[str, ...] = ()
    """Variables that are passed on. Folders that they name are readable too; one that names a folder where `folders`
    may not lie is left out."""

    @model_validator(mode="after")
    def _harmless(self) -> Self:
        """A target file may not open a home or a folder of secrets to candidates."""
        for pattern in (*self.nodes, *filter(None, [self.cards])):
            if not pattern.startswith("/dev/") or ".." in pattern or "**" in pattern:
                raise ValueError(f"{pattern!r} is no device node: patterns of nodes begin with /dev/")
        for pattern in self.folders:
            if not pattern.startswith(_HARMLESS) or ".." in pattern or "**" in pattern:
                raise ValueError(f"{pattern!r} is not let through: folders lie below {', '.join(_HARMLESS)}")
        for name in self.environment:
            if not name.isidentifier() or keys.holds_secret(name, ""):
                raise ValueError(f"{name!r} is not passed on: it is no variable's name, or may hold a secret")
        return self


class Target(Frozen):
    """One device that kernels are made for."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    summary: str
    family: str | None = None
    """Whose `families/NAME.toml` was merged into this, key by key; of families of families the outermost."""
    offline: Offline | None = None
    """What compiles for it where there is no such device; None: nothing that can be had."""
    torch_device: str
    """torch device type: `cpu`, `cuda`, `npu`, ..."""
    plugin: str | None = None
    """Module that registers the torch device when imported."""
    module: str = Field(default="kernelsmith.devices.cpu", pattern=r"^[A-Za-z_][\w.]*$")
    """How its kernels are compiled, bound and timed: a module with `open_device()`."""
    triton: TritonInfo
    access: Access = Access()
    reported_as: tuple[str, ...] = ()
    """What the driver calls such cards: words that stand in the names of these and of no others."""
    limits: Limits = Limits()
    multiprocessor: Multiprocessor | None = None
    cores: Cores | None = None
    memory_bytes: Bytes | None = None
    l2_bytes: Bytes | None = None
    """Of the last cache that all of the device shares and that is part of it."""
    clock_mhz: Annotated[int, Field(ge=100, le=10_000)] | None = None
    """The highest that the cores run at."""
    toolchain: Toolchain | None = None
    lint: dict[Construct, LintRule] = {}
    peaks: Peaks = Peaks()
    cache_flush_bytes: int = Field(gt=0)
    """Size of a buffer whose overwriting leaves nothing else in the caches."""
    visible_devices: str | None = None
    """Environment variable that selects cards."""
    no_fallback: dict[Annotated[str, Field(pattern=r"^(PY)?TORCH_[A-Z0-9_]+$")], Literal["0", "1"]] = {}
    """Environment under which torch refuses what the device lacks instead of computing it on the CPU."""
    query: Literal["nvidia-smi"] | None = None
    """Command that says which processes hold the device's memory, where one is understood."""
    profiler: str | None = None
    useless_knobs: tuple[str, ...] = ()
    """Launch options that change nothing here, so that nobody tunes them."""
    cluster_resources: dict[str, str] = {}
    """What a scheduler calls the device: `ray`, `kubernetes`, ..."""
    knowledge: tuple[str, ...] = ()
    """Files `prompts/knowledge/NAME.md` for prompts, general ones first."""
    notes: str = ""
    """Markdown for prompts, beside the knowledge files."""
    sources: dict[str, str] = {}
    """Where each fact was read, by its dotted key."""

    @model_validator(mode="after")
    def _compiles_with_something(self) -> Self:
        if self.offline and (self.toolchain is None or self.triton.arch is None):
            raise ValueError(f'offline = "{self.offline}" needs toolchain and triton.arch: what compiles, and for what')
        return self
