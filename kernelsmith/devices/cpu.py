"""The CPU as a device: how its kernels are compiled and bound, and how work on it is timed.

Invariant: launches end before they return, so the clock of this process is the device's clock. The launcher uses it
through `kernelsmith.sandbox.replay.Device`; kernels are read as TTIR text and never pass through MLIR.
"""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Sequence
from functools import cached_property

import torch

from kernelsmith.errors import InfrastructureError
from kernelsmith.plan import Kernel
from kernelsmith.triton_cpu import launch, pool
from kernelsmith.triton_cpu.build import CompilerMissingError
from kernelsmith.triton_cpu.launch import Grid

_NOTHING = """module {
  tt.func public @wake(%nothing: !tt.ptr<i32>) {
    tt.return
  }
}
"""


class CpuDevice:
    """Every core that this process may run on, as one Triton device."""

    def compile(self, kernel: Kernel) -> launch.Kernel:
        """Raises ValueError that names the construct or the line, or the compiler's own error."""
        try:
            return launch.compile_ttir(kernel.ttir, fp_fusion=kernel.options.get("enable_fp_fusion") is not False)
        except CompilerMissingError as error:
            raise InfrastructureError(error.message, error.hint) from error

    def reserve(self, nbytes: int) -> torch.Tensor:
        """Fresh pages as flat uint8; raises MemoryError."""
        if nbytes == 0:
            return torch.empty(0, dtype=torch.uint8)
        try:
            pages = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise MemoryError(f"{nbytes} bytes cannot be had: {error}") from error
        return torch.frombuffer(pages, dtype=torch.uint8)

    def time(self, steps: Sequence[Callable[[], object]]) -> int:
        """Nanoseconds that the steps take, one after the other."""
        self._wake()
        begin = time.perf_counter_ns()
        for step in steps:
            step()
        return time.perf_counter_ns() - begin

    @cached_property
    def _wake(self) -> Callable[[], object]:
        """A launch that does nothing on every thread: a sleeping pool would cost the first step its wake-up."""
        grid: Grid = (4 * pool.get_num_threads(), 1, 1)
        return launch.compile_ttir(_NOTHING).bind(grid, [0])
