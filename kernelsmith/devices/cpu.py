"""The CPU as a device: how its kernels are compiled and bound, and how work on it is timed.

Invariant: launches end before they return, so the clock of this process is the device's clock. The launcher uses it
through `kernelsmith.sandbox.replay.replay.Device`; kernels are read as TTIR text and never pass through MLIR.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial

import torch

from kernelsmith.errors import InfrastructureError
from kernelsmith.faults import CheckedLaunchError, Fault, Schedule
from kernelsmith.plan import Kernel
from kernelsmith.triton_cpu.run import launch, pool
from kernelsmith.triton_cpu.run.build import CompilerMissingError
from kernelsmith.triton_cpu.run.launch import Grid
from kernelsmith.triton_cpu.watch.monitor import Memory, Segment, run_checked

MAP_NORESERVE = 0x4000
"""From linux/mman.h, the same on every architecture that Triton runs on; `mmap` has it from Python 3.13 on."""
UNBACKED_BYTES = 64 << 30
"""Up to here a plan may have more memory than the machine, since little of it may ever be looked at (rows far apart);
what it touches counts against the limit of its process."""

_NOTHING = """module {
  tt.func public @wake(%nothing: !tt.ptr<i32>) {
    tt.return
  }
}
"""


@dataclass(frozen=True)
class CheckedKernel:
    """A checked build with its monitor."""

    kernel: launch.Kernel

    def run(
        self,
        grid: Grid,
        slots: Sequence[int | float],
        segments: Sequence[Segment | None],
        memory: Memory,
        *,
        tables: Sequence[Segment],
        schedule: Schedule,
        seed: int,
    ) -> tuple[Fault, ...]:
        """Launch it and say what was wrong; see `monitor.run_checked`. Programs that all run at once and may wait for
        each other do so under every schedule."""
        if self.kernel.cooperates(grid):
            schedule = Schedule.PARALLEL
        return run_checked(self.kernel, grid, slots, segments, memory, tables=tables, schedule=schedule, seed=seed)


@dataclass(frozen=True)
class AssertingKernel:
    """A plain build of a kernel that asserts; a call raises CheckedLaunchError where an assertion fails."""

    kernel: launch.Kernel

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.kernel.arguments

    def bind(self, grid: Grid, slots: Sequence[int | float], threads: int = 0) -> Callable[[], object]:
        """As `launch.Kernel.bind`."""
        return partial(self._launch, grid, slots)

    def bind_each(self, grid: Grid, slots: Sequence[int | float]) -> None:
        """Single program instances cannot be run."""

    def _launch(self, grid: Grid, slots: Sequence[int | float]) -> None:
        if faults := run_checked(self.kernel, grid, slots, [None] * len(slots), Memory(assume_written=True)):
            raise CheckedLaunchError(faults)


def open_device() -> CpuDevice:
    """The processor."""
    return CpuDevice()


class CpuDevice:
    """Every core that this process may run on, as one Triton device."""

    def __init__(self) -> None:
        self._loaded: dict[tuple[str, bool, bool], launch.Kernel] = {}
        """By text, fp fusion and whether it is checked."""

    def limit_memory(self, nbytes: int) -> None:
        """Its memory is the host's, which is bounded from outside."""

    def place(self, host: torch.Tensor) -> torch.Tensor:
        """The bytes as they are: kernels work where the judge wrote them."""
        return host

    def allocate(self, size: int, alignment: int, stream: int | None) -> torch.Tensor:
        """Memory for kernels that ask Triton for some, aligned to 64 bytes."""
        return torch.empty(size, dtype=torch.int8)

    def finish(self) -> None:
        """Launches end before they return."""

    def give(self, kernel: Kernel, binary: launch.Binary, *, checked: bool) -> None:
        """A build of the kernel that somebody else has made, and that is taken from here on."""
        self._loaded[kernel.ttir, _fused(kernel), checked] = binary.load()

    def compile(self, kernel: Kernel) -> launch.Kernel | AssertingKernel:
        """Raises ValueError that names the construct or the line, or the compiler's own error."""
        compiled = self._compiled(kernel, checked=False)
        return compiled if compiled.watch is None else AssertingKernel(compiled)

    def compile_checked(self, kernel: Kernel) -> CheckedKernel:
        """The same kernel as a build that finds faults as it runs."""
        return CheckedKernel(self._compiled(kernel, checked=True))

    def reserve(self, nbytes: int) -> torch.Tensor:
        """Fresh pages as flat uint8, which cost nothing until they are touched; raises MemoryError."""
        if nbytes == 0:
            return torch.empty(0, dtype=torch.uint8)
        try:
            unbacked = MAP_NORESERVE if nbytes <= UNBACKED_BYTES else 0
            pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | unbacked)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"{nbytes} bytes cannot be had: {error}") from error
        return torch.frombuffer(pages, dtype=torch.uint8)

    def time(self, steps: Sequence[Callable[[], object]]) -> int:
        """Nanoseconds that the steps take, one after the other."""
        with self.timed():
            self._wake()
            begin = time.perf_counter_ns()
            for step in steps:
                step()
            return time.perf_counter_ns() - begin

    def timed(self) -> AbstractContextManager[None]:
        """Around work whose time counts: threads stay awake between launches."""
        return pool.awake()

    def abreast(self, *, turns: bool) -> AbstractContextManager[None]:
        """Around the calls of one thread while others make theirs; with `turns` their launches meet."""
        return pool.meeting() if turns else nullcontext()

    def _compiled(self, kernel: Kernel, *, checked: bool) -> launch.Kernel:
        fused = _fused(kernel)
        if given := self._loaded.get((kernel.ttir, fused, checked)):
            return given
        try:
            return launch.compile_ttir(kernel.ttir, fp_fusion=fused, checked=checked)
        except CompilerMissingError as error:
            raise InfrastructureError(error.message, error.hint) from error

    @cached_property
    def _wake(self) -> Callable[[], object]:
        """A launch that does nothing on every thread: a sleeping pool would cost the first step its wake-up."""
        grid: Grid = (4 * pool.get_num_threads(), 1, 1)
        return idle_kernel().bind(grid, [0])


def idle_kernel() -> launch.Kernel:
    """A kernel that does nothing; compiled once per process and its forks."""
    return launch.compile_ttir(_NOTHING)


def _fused(kernel: Kernel) -> bool:
    return kernel.options.get("enable_fp_fusion") is not False
