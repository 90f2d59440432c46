"""GPUs of NVIDIA and AMD: how a plan's kernels are compiled from their TTIR, bound and timed, all through torch and
Triton's own compilers and launchers.

Proven without a GPU: everything up to the loaded binary, that is compiling and the types of arguments. NOT RUN on a
device yet: loading, launching, timing, memory limits and the probe; tests marked `gpu` do it where there is one.
Invariant: importing this module touches no device, since the zygote does; a context exists only in a confined child.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from kernelsmith.devices import DeviceFaultError
from kernelsmith.errors import InfrastructureError
from kernelsmith.plan import Kernel

TARGET_VARIABLE = "KERNELSMITH_TRITON_TARGET"
"""Environment variable `backend:arch:warp size`, from the target's file; where it is missing, the driver is asked."""
BLOCK_SECONDS, BLOCK_SECONDS_PER_STEP = 300e-6, 30e-6
"""How long the device is kept busy while work is queued for the clock: a launch takes Triton's Python 10 microseconds
or so. Doubled whenever it was too short."""
LONGEST_BLOCK_SECONDS = 0.5
_CYCLES_PER_SECOND = 3e9
"""Of `torch.cuda._sleep`; above the boost clocks that datasheets name (an RTX 4090: 2.52 GHz), so that it never sleeps
shorter than asked."""
_DIALECT_TYPES = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "u64": "i64"}
_POINTER = re.compile(r"!tt\.ptr<(.+)>$")


def open_device() -> GpuDevice:
    """The first card that this process sees; it is given one."""
    return GpuDevice()


def kind_of(parameter: str) -> str:
    """A parameter's type as Triton's launchers know it, from a plan's: that of an AST signature, or of TTIR."""
    pointer = _POINTER.match(parameter)
    return f"*{kind_of(pointer[1])}" if pointer else _DIALECT_TYPES.get(parameter, parameter)


def compile_ttir(kernel: Kernel, target: Any) -> Any:
    """Triton's `CompiledKernel` for a `GPUTarget`; needs no device. Raises ValueError with the compiler's words, and
    InfrastructureError where this machine keeps it from working."""
    import triton

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ttir"  # Triton reads TTIR from files only
        source.write_text(kernel.ttir, encoding="utf-8")
        try:
            compiled = triton.compile(str(source), target=target, options=dict(kernel.options))
        except OSError as error:  # no assembler, no room for its files
            raise InfrastructureError(f"Triton's compiler cannot work here: {error}") from error
        except Exception as error:  # MLIR raises RuntimeError, the assemblers errors of their own
            raise ValueError(f"{type(error).__name__}: {error}") from error
    # TTIR spells types in ways that the launchers do not know, and knows no unsigned integers.
    compiled.src.signature = dict(enumerate(map(kind_of, kernel.signature)))
    return compiled


@dataclass(frozen=True)
class GpuKernel:
    """A kernel loaded into this process's context."""

    compiled: Any
    arguments: tuple[str, ...]

    def bind(self, grid: tuple[int, int, int], slots: Sequence[int | float], threads: int = 0) -> Callable[[], object]:
        """A call that queues it on the current stream."""
        from triton.runtime import driver

        if 0 in grid:
            return _nothing
        stream = driver.active.get_current_stream(driver.active.get_current_device())
        kernel = self.compiled
        # launch metadata and the two hooks stand between what the kernel needs and its arguments
        return partial(kernel.run, *grid, stream, kernel.function, kernel.packed_metadata, None, None, None, *slots)

    def bind_each(self, grid: tuple[int, int, int], slots: Sequence[int | float]) -> None:
        """Single program instances cannot be run."""


class GpuDevice:
    """One card."""

    def __init__(self) -> None:
        self._block_seconds = BLOCK_SECONDS

    def limit_memory(self, nbytes: int) -> None:
        """Bound what torch's allocator takes in this process; what native code takes is seen from outside."""
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, nbytes / total), 0)

    def place(self, host: torch.Tensor) -> torch.Tensor:
        """A copy of the bytes on the device; raises MemoryError."""
        return self.reserve(host.numel()).copy_(host)

    def allocate(self, size: int, alignment: int, stream: int | None) -> torch.Tensor:
        """Memory for kernels that ask Triton for some, aligned to 512 bytes."""
        return torch.empty(size, dtype=torch.int8, device="cuda")

    def finish(self) -> None:
        """Wait for everything that this process has queued; raises DeviceFaultError where it did not end well."""
        try:
            torch.cuda.synchronize()
        except RuntimeError as error:  # of CUDA, which reports the faults of kernels when somebody waits for them
            raise DeviceFaultError(str(error)) from error

    def give(self, kernel: Kernel, binary: object, *, checked: bool) -> None:
        """Always raises: kernels are built for the CPU only."""
        raise InfrastructureError(f"kernel {kernel.name}: a build for the CPU was given to a GPU")

    def compile(self, kernel: Kernel) -> GpuKernel:
        """Raises ValueError with the compiler's words, also where the kernel does not fit into the device."""
        from triton.runtime import driver
        from triton.runtime.errors import OutOfResources

        compiled = compile_ttir(kernel, given_target() or driver.active.get_current_target())
        try:
            compiled._init_handles()
        except OutOfResources as error:
            raise ValueError(str(error)) from error
        return GpuKernel(compiled, tuple(compiled.src.signature.values()))

    def compile_checked(self, kernel: Kernel) -> Any:
        """Always raises: faults are found by the CPU backend's builds only."""
        raise InfrastructureError(f"kernel {kernel.name}: there are no checked builds for a GPU")

    def reserve(self, nbytes: int) -> torch.Tensor:
        """Memory of the device as flat uint8, aligned to 512 bytes by torch's allocator; raises MemoryError."""
        try:
            return torch.empty(nbytes, dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError as error:
            raise MemoryError(f"device memory: {error}") from error

    def time(self, steps: Sequence[Callable[[], object]]) -> int:
        """Nanoseconds between two events around the steps, all queued behind a kernel that keeps the device busy, so
        that neither Python nor the launches count."""
        cuda: Any = torch.cuda
        blocked, begin, end = (cuda.Event(enable_timing=True) for _ in range(3))
        self.finish()
        seconds = min(self._block_seconds + BLOCK_SECONDS_PER_STEP * len(steps), LONGEST_BLOCK_SECONDS)
        cuda._sleep(int(seconds * _CYCLES_PER_SECOND))
        blocked.record()
        begin.record()
        for step in steps:
            step()
        end.record()
        if blocked.query():  # it waited for us; the next one will not
            self._block_seconds = min(2 * self._block_seconds, LONGEST_BLOCK_SECONDS)
        self.finish()
        return max(1, round(float(begin.elapsed_time(end)) * 1e6))

    @contextmanager
    def abreast(self, *, turns: bool) -> Iterator[None]:
        """Around the calls of one thread while others make theirs: a stream of its own. The device decides who runs."""
        cuda: Any = torch.cuda
        outside, own = cuda.current_stream(), cuda.Stream()
        own.wait_stream(outside)
        try:
            with cuda.stream(own):
                yield
        finally:
            outside.wait_stream(own)

    def timed(self) -> AbstractContextManager[None]:
        """Around work whose time counts: nothing falls asleep here."""
        return nullcontext()


def given_target() -> Any:
    """The `GPUTarget` that the target's file names; None where it leaves that to the driver. Touches no device."""
    from triton.backends.compiler import GPUTarget

    given = os.environ.get(TARGET_VARIABLE)
    if given is None:
        return None
    backend, arch, warp_size = given.split(":")
    return GPUTarget(backend, int(arch) if arch.isdecimal() else arch, int(warp_size))


def _nothing() -> None:
    """What a grid without programs does."""
