"""The launch plan: what a candidate asks the device to do for one call, as plain data.

A candidate's Python is recorded in the sandbox and never timed; what it asked for is written down here and replayed by
our own launcher on fresh inputs. Work that is not in the plan does not happen in the replay, so fallbacks to torch,
decoys, lazy tensors, caches and patched clocks fail by construction.

Three kinds of step are enough: `Fill` and `Copy` (a closed list of aten calls becomes these: zeros, full, copy_, casts,
clone, cat, pad, ...) and `Launch` (a Triton kernel given by its TTIR); views and allocations are only buffers and
strides. A plan is hostile data: validators bound every number in it before a launcher sees it (`read_plan`). Two plans
are the same if `canonical()` is the same text.

Bounds are checked in `model_post_init`, once for each object: pydantic runs a validator again wherever the object
becomes part of another one.
"""

from __future__ import annotations

import functools
import re
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kernelsmith.base import Frozen, digest
from kernelsmith.dialects import foreign
from kernelsmith.text import clean

ITEM_SIZES: dict[str, int] = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "uint32": 4,
    "int64": 8,
    "uint64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes per element of the torch dtypes that may cross the boundary, by torch's own names."""

MAX_STEPS = 4096
MAX_BUFFERS = 4096
MAX_KERNELS = 256
MAX_RANK = 16
MAX_TTIR_CHARS = 4 << 20
MAX_CONSTANT_BYTES = 4096
MAX_SCRATCH_BYTES = 16 << 30
MAX_ARGUMENTS = 1024
"""Of one launch; a descriptor of five dimensions is 21 of them."""
MAX_OUTPUTS = 256
MAX_RELOCATIONS = MAX_CONSTANT_BYTES // 8
MAX_STATE_BYTES = 8 << 30
MAX_GRID = 2**31 - 1
MAX_ELEMENTS = 2**40
"""Bound of every size, stride, offset and number of elements: no arithmetic on them overflows."""
ASCEND_OPTIONS = frozenset(
    {
        *("multibuffer", "unit_flag", "set_workspace_multibuffer", "tile_mix_vector_loop", "tile_mix_cube_loop"),
        *("enable_auto_bind_sub_block", "enable_hivm_auto_cv_balance", "sync_solver"),
    }
)
"""Launch options that only triton-ascend knows."""
ALLOWED_OPTIONS = ASCEND_OPTIONS | {
    *("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion", "waves_per_eu", "kpack"),
    "launch_cooperative_grid",
}
"""Launch options that may travel; never ones that swap in foreign code, such as `ir_override` or `extern_libs`."""


Number = Annotated[str, Field(max_length=64)]
"""A float as text, so that nan, inf and every bit survive JSON."""
Integer = Annotated[int, Field(ge=-(2**63), lt=2**64)]


class View(Frozen):
    """A tensor: dtype, shape and strides over part of a buffer; offset in elements from the buffer's first byte."""

    buffer: int = Field(ge=0, lt=MAX_BUFFERS)
    dtype: str = Field(max_length=64)
    shape: tuple[int, ...] = Field(max_length=MAX_RANK)
    strides: tuple[int, ...] = Field(max_length=MAX_RANK)
    offset: int = Field(default=0, ge=0)

    @property
    def numel(self) -> int:
        n = 1
        for size in self.shape:
            n *= size
        return n

    @property
    def extent(self) -> int:
        """Bytes from the start of the buffer to the end of the last element that the view reaches."""
        if self.numel == 0:
            return 0
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * ITEM_SIZES[self.dtype]

    def model_post_init(self, context: object) -> None:
        if self.dtype not in ITEM_SIZES:
            raise ValueError(f"dtype {self.dtype!r} cannot cross the boundary")
        if len(self.shape) != len(self.strides):
            raise ValueError("shape and strides disagree")
        if any(n < 0 for n in self.shape) or any(s < 0 for s in self.strides):
            raise ValueError("negative size or stride")
        if max((self.offset, self.numel, *self.shape, *self.strides)) > MAX_ELEMENTS:
            raise ValueError(f"a size, stride or offset over {MAX_ELEMENTS}")


class InputBuffer(Frozen):
    """Storage of a tensor argument; `index` counts the tensor arguments of the call in order."""

    kind: Literal["input"] = "input"
    index: int = Field(ge=0, lt=MAX_BUFFERS)
    nbytes: int = Field(ge=0, le=MAX_ELEMENTS)


class ScratchBuffer(Frozen):
    """Memory the host function allocated during the call; holds garbage (poison) at first."""

    kind: Literal["scratch"] = "scratch"
    nbytes: int = Field(ge=0, le=MAX_SCRATCH_BYTES)


class StateBuffer(Frozen):
    """Memory that existed before the call: parameters, locks, shape-keyed workspaces. Must end as it began, unless
    nothing depends on how it begins."""

    kind: Literal["state"] = "state"
    index: int = Field(ge=0, lt=MAX_BUFFERS)
    """Position in the list of state contents that travels beside the plan as raw bytes."""
    nbytes: int = Field(ge=0, le=MAX_STATE_BYTES)
    content: str | None = Field(default=None, max_length=64)
    """Digest of its bytes before the call; None where the call leaves others: a replay then finds poison there, as in
    scratch."""


class Relocation(Frozen):
    """At byte `at` of a constant stands the address of `buffer` plus `offset` bytes (a pointer table)."""

    at: int = Field(ge=0)
    buffer: int = Field(ge=0)
    offset: int = Field(default=0, ge=0)


class ConstantBuffer(Frozen):
    """A small tensor made from Python numbers during the call."""

    kind: Literal["constant"] = "constant"
    data: str = Field(max_length=2 * MAX_CONSTANT_BYTES, pattern=r"^(?:[0-9a-f]{2})*$")
    """Hexadecimal bytes."""
    relocations: tuple[Relocation, ...] = Field(default=(), max_length=MAX_RELOCATIONS)

    @property
    def nbytes(self) -> int:
        return len(self.data) // 2


Buffer = Annotated[InputBuffer | ScratchBuffer | StateBuffer | ConstantBuffer, Field(discriminator="kind")]


class Fill(Frozen):
    """Every element of `out` becomes `value`."""

    kind: Literal["fill"] = "fill"
    out: View
    value: bool | Integer | Number

    def model_post_init(self, context: object) -> None:
        if isinstance(self.value, str):
            float(self.value)


class Copy(Frozen):
    """`out` takes the elements of `source`, broadcast and cast as torch's `copy_` does."""

    kind: Literal["copy"] = "copy"
    out: View
    source: View


class PointerArgument(Frozen):
    """Address of an element of a buffer; `view` bounds what a checked build lets the kernel reach."""

    kind: Literal["pointer"] = "pointer"
    view: View


class ScalarArgument(Frozen):
    """An integer, boolean or float."""

    kind: Literal["scalar"] = "scalar"
    value: bool | Integer | Number

    def model_post_init(self, context: object) -> None:
        if isinstance(self.value, str):
            float(self.value)


class NullArgument(Frozen):
    """A `None` where the kernel has a pointer."""

    kind: Literal["null"] = "null"


Argument = Annotated[PointerArgument | ScalarArgument | NullArgument, Field(discriminator="kind")]


class Kernel(Frozen):
    """A compiled-from text; the same kernel for every launch that names it."""

    name: Annotated[str, Field(max_length=512), AfterValidator(clean)]
    ttir: str = Field(max_length=MAX_TTIR_CHARS)
    signature: tuple[Annotated[str, Field(max_length=256)], ...] = Field(max_length=MAX_ARGUMENTS)
    """Types of the arguments that reach the device, from the AST signature (TTIR omits what Triton specialises)."""
    options: dict[str, bool | Integer | None] = Field(default={}, max_length=len(ALLOWED_OPTIONS))

    def model_post_init(self, context: object) -> None:
        if unknown := self.options.keys() - ALLOWED_OPTIONS:
            raise ValueError(f"launch options not allowed: {sorted(unknown)}")
        if why := foreign(self.ttir):
            raise ValueError(f"{self.name}: a plan may not hold {why}")


class Launch(Frozen):
    """One kernel launch; arguments in the order of the kernel's signature, constants left out."""

    kind: Literal["launch"] = "launch"
    kernel: int = Field(ge=0)
    grid: tuple[int, int, int]
    arguments: tuple[Argument, ...] = Field(max_length=MAX_ARGUMENTS)


Step = Annotated[Fill | Copy | Launch, Field(discriminator="kind")]


class LaunchPlan(Frozen):
    """Everything one call of the host function asks of the device."""

    buffers: tuple[Buffer, ...] = Field(max_length=MAX_BUFFERS)
    kernels: tuple[Kernel, ...] = Field(max_length=MAX_KERNELS)
    steps: tuple[Step, ...] = Field(max_length=MAX_STEPS)
    outputs: tuple[View, ...] = Field(max_length=MAX_OUTPUTS)
    """The returned tensors, in order; those that the operator mutates are input buffers and need not be returned."""

    def model_post_init(self, context: object) -> None:
        for view in self.views():
            if view.buffer >= len(self.buffers):
                raise ValueError(f"view of buffer {view.buffer}, of which there are {len(self.buffers)}")
            if view.extent > self.buffers[view.buffer].nbytes:
                raise ValueError(f"view of {view.extent} bytes in a buffer of {self.buffers[view.buffer].nbytes}")
        for step in self.steps:
            if isinstance(step, Launch):
                _check_launch(step, self.kernels)
            elif step.out.numel * ITEM_SIZES[step.out.dtype] > self.buffers[step.out.buffer].nbytes:
                raise ValueError(f"a step writes {step.out.numel} elements over each other")
        for buffer in self.buffers:
            if isinstance(buffer, ConstantBuffer):
                for r in buffer.relocations:
                    if r.at + 8 > buffer.nbytes or r.buffer >= len(self.buffers):
                        raise ValueError("relocation outside its constant or to a buffer that is not there")
                    if r.offset > self.buffers[r.buffer].nbytes:
                        raise ValueError("relocation past the end of its buffer")
        _check_indices([b.index for b in self.buffers if isinstance(b, InputBuffer)], "input", dense=False)
        _check_indices([b.index for b in self.buffers if isinstance(b, StateBuffer)], "state", dense=True)
        scratch = sum(b.nbytes for b in self.buffers if isinstance(b, ScratchBuffer))
        if scratch > MAX_SCRATCH_BYTES:
            raise ValueError(f"{scratch} bytes of scratch, more than {MAX_SCRATCH_BYTES}")
        state = sum(b.nbytes for b in self.buffers if isinstance(b, StateBuffer))
        if state > MAX_STATE_BYTES:
            raise ValueError(f"{state} bytes that existed before the call, more than {MAX_STATE_BYTES}")

    def views(self) -> list[View]:
        """Every view in the plan."""
        found = list(self.outputs)
        for step in self.steps:
            if isinstance(step, Launch):
                found += [a.view for a in step.arguments if isinstance(a, PointerArgument)]
            elif isinstance(step, Copy):
                found += [step.out, step.source]
            else:
                found.append(step.out)
        return found

    @property
    def launches(self) -> int:
        return sum(isinstance(step, Launch) for step in self.steps)

    def workspace_bytes(self, *, state: bool) -> int:
        """What one call allocates and does not return; with `state` also what was kept from before it, which may be
        parameters of a model."""
        kinds = (ScratchBuffer, StateBuffer) if state else (ScratchBuffer,)
        returned = {view.buffer for view in self.outputs}
        return sum(b.nbytes for n, b in enumerate(self.buffers) if isinstance(b, kinds) and n not in returned)

    def canonical(self) -> str:
        """Text that is equal for equal plans: kernels without source locations."""
        plain = self.model_copy(
            update={"kernels": tuple(k.model_copy(update={"ttir": without_locations(k.ttir)}) for k in self.kernels)}
        )
        return plain.model_dump_json()

    @property
    def digest(self) -> str:
        return digest(self.canonical())


_LOCATION_LINE = re.compile(r"^#loc\d*[ \t]*=.*$\n?", re.MULTILINE)
_STRING = r'"(?:[^"\\\n]|\\.)*+"?'
_OUTSIDE = re.compile(rf"{_STRING}|\b(?P<open>loc\()")
_INSIDE = re.compile(rf"{_STRING}|(?P<open>\()|(?P<close>\))")


@functools.lru_cache(maxsize=64)
def without_locations(ttir: str) -> str:
    """TTIR text with every `loc(...)` and `#loc` line removed; value names stay.

    One pass over the text, which is hostile: no pattern looks at a character twice, as one for a whole location would.
    What is opened and never closed stays.
    """
    text = _LOCATION_LINE.sub("", ttir)
    kept: list[str] = []
    done = 0
    start = at = depth = 0
    while (found := (_INSIDE if depth else _OUTSIDE).search(text, at)) is not None:
        at = found.end()
        if found["open"] is not None:
            start = start if depth else found.start()
            depth += 1
        elif depth and found["close"] is not None:
            depth -= 1
            if not depth:
                kept.append(text[done:start].rstrip())
                done = at
    return "".join((*kept, text[done:]))


class Writer(StrEnum):
    """What wrote an output last."""

    LAUNCH = "launch"
    COPY = "copy"
    FILL = "fill"
    INPUT = "input"
    """No step: the output is an argument as it came in."""
    STATE = "state"
    """No step: memory that existed before the call."""
    CONSTANT = "constant"
    NOTHING = "nothing"
    """No step: memory that was allocated and never written."""


def writers(plan: LaunchPlan) -> tuple[Writer, ...]:
    """Per output, the last step that may have touched its bytes, or what its buffer is where no step did.

    A launch counts for every buffer that it is given, since a plan does not say which of them it only reads.
    """
    return tuple(_last_writer(plan, view) for view in plan.outputs)


def _last_writer(plan: LaunchPlan, output: View) -> Writer:
    for step in reversed(plan.steps):
        if isinstance(step, Launch):
            given = {a.view.buffer for a in step.arguments if isinstance(a, PointerArgument)}
            if output.buffer in given or any(_points_to(plan.buffers[b], output.buffer) for b in given):
                return Writer.LAUNCH
        elif step.out.buffer == output.buffer and _overlap(step.out, output):
            return Writer.COPY if isinstance(step, Copy) else Writer.FILL
    buffer = plan.buffers[output.buffer]
    if isinstance(buffer, StateBuffer) and buffer.content is None:
        return Writer.NOTHING
    kinds = {"input": Writer.INPUT, "state": Writer.STATE, "constant": Writer.CONSTANT, "scratch": Writer.NOTHING}
    return kinds[buffer.kind]


def _points_to(table: Buffer, buffer: int) -> bool:
    return isinstance(table, ConstantBuffer) and any(r.buffer == buffer for r in table.relocations)


def _overlap(a: View, b: View) -> bool:
    """Whether the bytes from first to last element of two views of one buffer meet; empty views meet everything."""
    starts = [view.offset * ITEM_SIZES[view.dtype] for view in (a, b)]
    return not (a.extent and b.extent) or (starts[0] < b.extent and starts[1] < a.extent)


def _check_indices(indices: list[int], kind: str, *, dense: bool) -> None:
    if len(set(indices)) != len(indices):
        raise ValueError(f"two {kind} buffers with the same index")
    if dense and indices and max(indices) >= len(indices):
        raise ValueError(f"{kind} buffers are not numbered from 0")


def _check_launch(step: Launch, kernels: tuple[Kernel, ...]) -> None:
    if step.kernel >= len(kernels):
        raise ValueError(f"launch of kernel {step.kernel}, of which there are {len(kernels)}")
    if len(step.arguments) != len(kernels[step.kernel].signature):
        raise ValueError(f"{kernels[step.kernel].name}: {len(step.arguments)} arguments for another signature")
    if any(not 0 <= g <= MAX_GRID for g in step.grid) or step.grid[0] * step.grid[1] * step.grid[2] > MAX_GRID:
        raise ValueError(f"grid {step.grid} out of range")


def read_plan(data: bytes) -> LaunchPlan:
    """Parse a plan that came from untrusted code; raises ValueError with the first thing that is wrong."""
    return LaunchPlan.model_validate_json(data)
