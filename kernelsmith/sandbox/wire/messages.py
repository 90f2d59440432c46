"""What the judge says to a candidate or a launcher, and what they may answer.

Every frame is one JSON object with a `kind`; tensors travel beside it, in arenas whose descriptors ride on the frame.
Invariant: both ends parse strictly, so a reply from hostile code is either one of these types, within its bounds, or a
ValueError. A reply is a claim and never a verdict. The judge writes requests, `recorder` and `launcher` answer them;
`exchange` says which are whose, and `many` has those about many runs.

Flow, candidate role (`kernelsmith.sandbox.record.recorder`), descriptors in brackets:

    Load [arena of init tensors, if any]  -> Loaded | Failed
    Call [input arena, output arena]      -> Called | Failed      the host function really runs, and is recorded
    State [state arena]                   -> StateWritten | Failed       initial contents of the last plan's state
    Lower []                              -> Lowered              kernels of the last plan, as another device has them
    Repeat []                             -> Repeated | Failed    the same arguments again, unrecorded, for the clock
    CallMany [input arena, output arena]  -> CalledMany | Failed  many calls, unrecorded, one or several at once

Flow, launcher role (`kernelsmith.sandbox.replay.launcher`), which holds no candidate Python:

    Prepare [state arena, if any]         -> Prepared | Failed | Broken
    Replay [input arena, output arena]    -> Replayed | Failed | Broken
    Sample [input arena]                  -> Sampled | Failed | Broken
    Keep [input arena, output arena]      -> Kept | Failed | Broken      what the last replay left behind
    Arrange [mirror arena]                -> Done | Failed | Broken
    Run []                                -> Done | Failed | Broken      for the judge's own clock
    Examine [input arena]                 -> Examined | Failed | Broken
    ReplayMany [input arena, output arena]-> ReplayedMany | Failed | Broken

Flow, builder role (`kernelsmith.sandbox.replay.builder`), which runs no kernel:

    Identify []                           -> Identified | Broken
    Source []                             -> Built | Failed | Broken

A candidate that was told to (`Load.builds`) answers a Load or Call with a Source when a kernel has to be built; it is
sent what became of it, Built or Failed, and goes on.

Arenas are shared and writable: what a call or a replay did to its inputs is seen in the input arena afterwards.
Descriptors of the same arena may be sent again and again; it is mapped once.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from kernelsmith.base import Frozen
from kernelsmith.compiled import Chip
from kernelsmith.faults import Fault, Schedule
from kernelsmith.outcome import Outcome
from kernelsmith.plan import (
    MAX_ARGUMENTS,
    MAX_BUFFERS,
    MAX_GRID,
    MAX_KERNELS,
    MAX_OUTPUTS,
    MAX_RANK,
    MAX_STEPS,
    Kernel,
    LaunchPlan,
    View,
)
from kernelsmith.sandbox.wire.arguments import ALIGNMENT, MAX_TEXT_CHARS, Arguments, Region, pack
from kernelsmith.sandbox.wire.builds import Built
from kernelsmith.text import clean

MAX_SOURCE_CHARS = 4 << 20
MAX_REPEATS = 1_000_000
MAX_COPIES = 4096
MAX_FAULTS = 64
MAX_TUNABLES = 1024
Extent = Annotated[int, Field(ge=-(2**31), le=MAX_GRID)]
HOST = "the host function"
"""The `kernel` of a fault for which no kernel is to blame: an output that no step has written."""

# ---------------------------------------------------------------- shared replies


class OutputTensor(Frozen):
    """A returned tensor. Its elements lie contiguous, in row-major order, at byte `offset` of the output arena."""

    dtype: str = Field(max_length=64)
    shape: tuple[int, ...] = Field(max_length=MAX_RANK)
    strides: tuple[int, ...] = Field(max_length=MAX_RANK)
    """Of the tensor as it was returned, in elements."""
    offset: int | None = Field(ge=0, multiple_of=ALIGNMENT)
    """None where the output arena had no room: it was made for the expected outputs, so this one is not expected."""

    def model_post_init(self, context: object) -> None:
        View(buffer=0, dtype=self.dtype, shape=self.shape, strides=self.strides)


OutputTensors = Annotated[tuple[OutputTensor, ...], Field(max_length=MAX_OUTPUTS)]
UntrustedText = Annotated[str, Field(max_length=MAX_TEXT_CHARS), AfterValidator(clean)]
Overrun = Annotated[tuple[Annotated[int, Field(ge=0, lt=MAX_BUFFERS)], ...], Field(max_length=MAX_BUFFERS)]


class Failed(Frozen):
    """What the candidate's own code did wrong, in words that a model can act on."""

    kind: Literal["failed"] = "failed"
    outcome: Outcome
    message: UntrustedText
    line: int | None = Field(default=None, ge=1)
    """Of the candidate's source, where one is to blame."""
    trace: UntrustedText = ""
    """Tail of the traceback."""

    def model_post_init(self, context: object) -> None:
        if self.outcome is Outcome.PASSED:
            raise ValueError("a failure cannot have passed")
        if not self.message.strip():
            raise ValueError("a failure says why")


class Broken(Frozen):
    """The launcher itself cannot work (no compiler, no memory): nobody's kernel is to blame."""

    kind: Literal["broken"] = "broken"
    message: UntrustedText
    hint: UntrustedText = ""


class Choice(Frozen):
    """The configuration of one autotuned kernel for a call, by its position in `Tunable.configs`."""

    kernel: UntrustedText
    config: int = Field(ge=0, lt=2**31)


class Tunable(Frozen):
    """An autotuned kernel of the module."""

    kernel: UntrustedText
    """Name of the jitted function; `name#2` for the second of that name."""
    configs: tuple[UntrustedText, ...] = Field(min_length=1, max_length=MAX_TUNABLES)
    """As Python, for example `{'BLOCK': 1024}, num_warps=4, num_stages=2`."""
    keys: tuple[UntrustedText, ...] = Field(max_length=MAX_ARGUMENTS)
    """The arguments after which the author wants it tuned anew."""


# ---------------------------------------------------------------- candidate role


class Load(Frozen):
    """Run the module; for a class, construct one instance under `seed`, as KernelBench does for both of its models."""

    kind: Literal["load"] = "load"
    source: str = Field(max_length=MAX_SOURCE_CHARS)
    entry: str
    """Name of the function or class."""
    is_class: bool = False
    init: Arguments = Arguments()
    seed: int = Field(default=0, ge=0, lt=2**63)
    builds: bool = False
    """Whether the judge has kernels built; they are compiled in the candidate's process otherwise."""


class Loaded(Frozen):
    kind: Literal["loaded"] = "loaded"
    tunables: tuple[Tunable, ...] = Field(max_length=MAX_TUNABLES)

    def model_post_init(self, context: object) -> None:
        if len({tunable.kernel for tunable in self.tunables}) != len(self.tunables):
            raise ValueError("two autotuned kernels of one name")


class Call(Frozen):
    """Call the host function. Kernels that `choices` does not name take their first configuration."""

    kind: Literal["call"] = "call"
    arguments: Arguments
    choices: tuple[Choice, ...] = ()
    record: bool = True
    elsewhere: tuple[Region | None, ...] = ()
    """Per region of the arguments, where in the arena kernels find that memory if not where the host function does."""
    launch: bool = True
    """Whether the kernels run."""

    def model_post_init(self, context: object) -> None:
        """What is recorded is what happens; a double is as large as its original."""
        if self.record and (self.elsewhere or not self.launch):
            raise ValueError("a recorded call runs its kernels on the arguments themselves")
        regions = self.arguments.regions
        if self.elsewhere and len(self.elsewhere) != len(regions):
            raise ValueError(f"{len(self.elsewhere)} doubles for {len(regions)} regions")
        pairs = zip(regions, self.elsewhere, strict=False)
        if any(double is not None and double.nbytes != region.nbytes for region, double in pairs):
            raise ValueError("a double of another size than its region")


class Structure(Frozen):
    """What the host function returned: one tensor, nothing, or a tuple or list of tensors."""

    kind: Literal["tensor", "none", "tuple", "list"]


class Launched(Frozen):
    """One kernel launch that was seen, not recorded."""

    kernel: UntrustedText
    grid: tuple[Extent, Extent, Extent]


class Called(Frozen):
    """`plan` is None if and only if nothing was to be recorded."""

    kind: Literal["called"] = "called"
    plan: LaunchPlan | None
    launches: tuple[Launched, ...] = Field(default=(), max_length=MAX_STEPS)
    """Of a call that was not recorded, in order; a plan holds them otherwise."""
    structure: Structure
    outputs: OutputTensors
    choices: tuple[Choice, ...] = Field(default=(), max_length=MAX_TUNABLES)
    """The configurations that the call really used."""


class State(Frozen):
    """Write the contents of the last plan's state buffers to the given arena, laid out by `state_regions`."""

    kind: Literal["state"] = "state"


class StateWritten(Frozen):
    kind: Literal["state_written"] = "state_written"


class Lower(Frozen):
    """Make the TTIR of the last plan's kernels once more, with the front end of another chip; nothing is run."""

    kind: Literal["lower"] = "lower"
    chip: Chip


class Lowered(Frozen):
    """By the plan's kernels: the text, or what the front end has against it."""

    kind: Literal["lowered"] = "lowered"
    kernels: tuple[Kernel | Failed, ...] = Field(max_length=MAX_KERNELS)


class Repeat(Frozen):
    """Call the host function `n` times more with the last arguments, unrecorded.

    With `launch` false the kernels are not run: what is left is the host function's own Python (and its aten calls).
    """

    kind: Literal["repeat"] = "repeat"
    n: int = Field(gt=0, le=MAX_REPEATS)
    launch: bool = True


class Repeated(Frozen):
    kind: Literal["repeated"] = "repeated"


# ---------------------------------------------------------------- launcher role


class Prepare(Frozen):
    """Compile every kernel of a plan and lay out its memory; the state arena is laid out by `state_regions`."""

    kind: Literal["prepare"] = "prepare"
    plan: LaunchPlan
    built: tuple[Built | None, ...] = ()
    """By the plan's kernels; None for one that this process was given before."""


class KernelBuild(Frozen):
    name: UntrustedText
    seconds: float = Field(ge=0, allow_inf_nan=False)
    """Wall time of its compilation; next to nothing where a cache had it."""


class Prepared(Frozen):
    kind: Literal["prepared"] = "prepared"
    plan_id: int = Field(ge=0)
    kernels: tuple[KernelBuild, ...] = Field(max_length=MAX_KERNELS)


class Forget(Frozen):
    """Free the memory of a plan."""

    kind: Literal["forget"] = "forget"
    plan_id: int = Field(ge=0)


class Order(StrEnum):
    """In which order the program instances of a launch run."""

    DEVICE = "device"
    """As the device does it, several at once."""
    BACKWARDS = "backwards"
    """One after the other, the last one first: allowed by Triton, and what a kernel that counts on the first program
    running first does not survive. Like DEVICE where a device offers no choice."""
    APART = "apart"
    """Each one on memory as it was before the launch; what they wrote is put together at the end. The same for kernels
    without atomics, unless programs read or add to what others write. BACKWARDS for kernels with atomics and where it
    would take long."""

    SHUFFLED = "shuffled"
    """One after the other, in an order drawn anew for every launch. Like DEVICE where a device offers no choice."""


class Replay(Frozen):
    """Run a plan once on the given inputs. Scratch and outputs hold `poison` in every byte before."""

    kind: Literal["replay"] = "replay"
    plan_id: int = Field(ge=0)
    inputs: tuple[Region, ...]
    """Storage of the plan's input buffers, by their `index`; the whole region is written back afterwards."""
    poison: int = Field(default=0xFF, ge=0, le=255)
    order: Order = Order.DEVICE


class Replayed(Frozen):
    kind: Literal["replayed"] = "replayed"
    outputs: OutputTensors
    state_intact: bool
    """Every state buffer ended as it began; it is restored before the next replay in any case."""
    overrun: Overrun = ()
    """Buffers of the plan around which bytes were written."""


class Sample(Frozen):
    """Time a plan once.

    Before the clock starts: fresh inputs, poisoned scratch and outputs, restored state, `flush_bytes` of other memory
    written to empty the caches, and one tiny launch to wake the threads.
    """

    kind: Literal["sample"] = "sample"
    plan_id: int = Field(ge=0)
    inputs: tuple[Region, ...]
    """Storage of the plan's input buffers; content that was never timed before."""
    flush_bytes: int = Field(default=0, ge=0, le=4 << 30)
    poison: int = Field(default=0xFF, ge=0, le=255)


class Sampled(Frozen):
    kind: Literal["sampled"] = "sampled"
    nanoseconds: int = Field(gt=0, lt=2**63)
    """All steps of the plan, nothing else."""
    state_intact: bool
    overrun: Overrun = ()


class Keep(Frozen):
    """Write the outputs of the last replay to the output arena and its inputs back. Asked afterwards, so that nobody
    knows while a replay is timed whether it will be checked."""

    kind: Literal["keep"] = "keep"
    plan_id: int = Field(ge=0)
    inputs: tuple[Region, ...]


class Kept(Frozen):
    kind: Literal["kept"] = "kept"
    outputs: OutputTensors


class Arrange(Frozen):
    """Lay the memory of a plan out in the given arena, once per region (`replay.layout` says how), as it is before a
    replay, but with poison for inputs: the judge writes those itself."""

    kind: Literal["arrange"] = "arrange"
    plan_id: int = Field(ge=0)
    copies: tuple[Region, ...] = Field(max_length=MAX_COPIES)
    poison: int = Field(default=0xFF, ge=0, le=255)


class Run(Frozen):
    """Do the steps of the plan on every copy that was arranged last."""

    kind: Literal["run"] = "run"


class Done(Frozen):
    """It was forgotten, arranged or run, and there is no more to say."""

    kind: Literal["done"] = "done"


class Examine(Frozen):
    """Run a plan once with checked builds of its kernels, on the given inputs, which are left alone."""

    kind: Literal["examine"] = "examine"
    plan_id: int = Field(ge=0)
    inputs: tuple[Region, ...]
    schedule: Schedule = Schedule.PARALLEL
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Of the order of programs, where the schedule draws one."""
    built: tuple[Built | None, ...] = ()
    """Checked builds, as in `Prepare`."""


def _plain_fault(fault: Fault) -> Fault:
    texts = (fault.kernel, fault.location, fault.expression, fault.tensor, fault.detail)
    if any(len(text or "") > MAX_TEXT_CHARS for text in texts):
        raise ValueError(f"a text of a fault has more than {MAX_TEXT_CHARS} characters")
    if any(len(index or ()) > MAX_RANK for index in (fault.lane, fault.index)):
        raise ValueError(f"an index of a fault has more than {MAX_RANK} dimensions")
    numbers = (*fault.program, *(fault.lane or ()), *(fault.index or ()), *(fault.other or ()), fault.count)
    if not all(-(2**63) <= number < 2**63 for number in numbers):
        raise ValueError("a number of a fault has more than 64 bits")
    return replace(
        fault,
        kernel=clean(fault.kernel),
        location=fault.location and clean(fault.location),
        expression=fault.expression and clean(fault.expression),
        tensor=fault.tensor and clean(fault.tensor),
        detail=clean(fault.detail),
    )


UntrustedFault = Annotated[Fault, AfterValidator(_plain_fault)]


class Examined(Frozen):
    """What the checked builds found in the first step of the plan in which they found anything."""

    kind: Literal["examined"] = "examined"
    faults: tuple[UntrustedFault, ...] = Field(max_length=MAX_FAULTS)


def state_regions(plan: LaunchPlan) -> tuple[Region, ...]:
    """Where in a state arena the contents of the plan's state buffers lie, by their `index`."""
    sizes = [b.nbytes for b in sorted((b for b in plan.buffers if b.kind == "state"), key=lambda b: b.index)]
    return tuple(pack(sizes))
