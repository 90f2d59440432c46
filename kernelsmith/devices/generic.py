"""Any accelerator that torch reaches as `torch.<type>`: its memory, queue, events and limits through what all of those
modules have in common. Which one it is, and which plugin brings it, says the target's file; kernels are Triton's.

Exercised without hardware against stand-ins (docs/devices.md). NOT RUN on a real device yet; tests marked `gpu` do it
where there is one. Invariant: importing this module touches no device, since the zygote does; a context exists only in
a confined child, or in the baseline's process.
"""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from kernelsmith.devices import PLUGIN_VARIABLE, TORCH_VARIABLE, DeviceFaultError
from kernelsmith.devices.kernels import load
from kernelsmith.errors import InfrastructureError
from kernelsmith.plan import Kernel

BLOCK_SECONDS, BLOCK_SECONDS_PER_STEP = 300e-6, 30e-6
"""How long the device is kept busy while work is queued for the clock: a launch takes Triton's Python 10 microseconds
or so. The first is doubled whenever it was too short."""
LONGEST_BLOCK_SECONDS = 20e-3
"""For the first. What takes longer to queue than this waits for the device itself (or is a baseline that the host
slows down in any program), and no block is long enough for it."""
_CYCLES = 100_000
"""Of one unit of `torch.cuda._sleep`: 50 microseconds at 2 GHz. What it counts differs, so a unit is timed."""
_FILLER_BYTES = 32 << 20
"""Of one copy that keeps a device busy which has no such call: 20 microseconds at 3.35 TB/s (an H100), 4 times what it
takes to queue."""
_UNITS_TIMED, _LEAST_UNIT_SECONDS = 8, 1e-6
_NO_MEMORY = ("out of memory", "failed to allocate")
"""In what allocators say that raise no torch.OutOfMemoryError; the second is PyTorch's OpenReg."""


def open_device() -> TorchDevice:
    """The first card that this process sees; it is given one."""
    if plugin := os.environ.get(PLUGIN_VARIABLE):
        importlib.import_module(plugin)
    return TorchDevice(os.environ[TORCH_VARIABLE])


class TorchDevice:
    """One card."""

    def __init__(self, kind: str, load: Callable[[Kernel], Any] = load) -> None:
        """`kind` is torch's type, `load` makes a plan's kernel one of this device, with what `LoadedKernel` has."""
        self._torch = kind
        self._load = load
        self._runtime = _Runtime(kind)
        self._most: int | None = None
        self._block_seconds = BLOCK_SECONDS

    def limit_memory(self, nbytes: int) -> None:
        """Bound what torch's allocator takes in this process, where it can be told, and each piece that is asked for
        here; what native code takes is seen from outside, where the driver can be asked."""
        self._most = nbytes
        self._runtime.limit_memory(nbytes)

    def place(self, host: torch.Tensor) -> torch.Tensor:
        """A copy of the bytes on the device; raises MemoryError."""
        return self.reserve(host.numel()).copy_(host)

    def allocate(self, size: int, alignment: int, stream: int | None) -> torch.Tensor:
        """Memory for kernels that ask Triton for some, aligned as torch's allocators do (512 bytes)."""
        return torch.empty(size, dtype=torch.int8, device=self._torch)

    def reserve(self, nbytes: int) -> torch.Tensor:
        """Memory of the device as flat uint8; raises MemoryError."""
        if self._most is not None and nbytes > self._most:
            raise MemoryError(f"device memory: {nbytes} bytes are asked for, {self._most} allowed")
        try:
            return torch.empty(nbytes, dtype=torch.uint8, device=self._torch)
        except RuntimeError as error:
            if isinstance(error, torch.OutOfMemoryError) or any(word in str(error).lower() for word in _NO_MEMORY):
                raise MemoryError(f"device memory: {error}") from error
            raise DeviceFaultError(str(error)) from error  # of work that was queued before

    def finish(self) -> None:
        """Wait for everything that this process has queued; raises DeviceFaultError where it did not end well."""
        try:
            self._runtime.synchronize()
        except RuntimeError as error:  # faults of kernels are reported when somebody waits for them
            raise DeviceFaultError(str(error)) from error

    def give(self, kernel: Kernel, binary: object, *, checked: bool) -> None:
        """Always raises: kernels are built for the CPU only."""
        raise InfrastructureError(f"kernel {kernel.name}: a build for the CPU was given to {self._torch}")

    def compile(self, kernel: Kernel) -> Any:
        """Raises ValueError with the compiler's words, also where the kernel does not fit into the device."""
        return self._load(kernel)

    def compile_checked(self, kernel: Kernel) -> Any:
        """Always raises: faults are found by the CPU backend's builds only."""
        raise InfrastructureError(f"kernel {kernel.name}: there are no checked builds for {self._torch}")

    def time(self, steps: Sequence[Callable[[], object]]) -> int:
        """Nanoseconds between two events around the steps, all queued behind work that keeps the device busy, so that
        neither Python nor the launches count. Steps that wait for the device count whole, with what the host does."""
        blocked, begin, end = (self._runtime.event() for _ in range(3))
        self.finish()
        self._runtime.keep_busy(self._block_seconds + BLOCK_SECONDS_PER_STEP * len(steps))
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
        outside, own = self._runtime.current_stream(), self._runtime.new_stream()
        own.wait_stream(outside)
        try:
            with self._runtime.on(own):
                yield
        finally:
            outside.wait_stream(own)

    def timed(self) -> AbstractContextManager[None]:
        """Around work whose time counts: nothing falls asleep here."""
        return nullcontext()


class _Runtime:
    """What `torch.<type>` calls things, and torch's own classes for any accelerator where it has no such name."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._module: Any = getattr(torch, kind)
        self._fill: Callable[[int], None] | None = None
        """Queues so many units of work that does nothing."""
        self._unit_seconds = math.inf

    def synchronize(self) -> None:
        self._named("synchronize")()

    def event(self) -> Any:
        """One that can be timed."""
        made = getattr(self._module, "Event", None)
        return made(enable_timing=True) if made else torch.Event(self._kind, enable_timing=True)

    def current_stream(self) -> Any:
        return self._named("current_stream")()

    def new_stream(self) -> Any:
        made = getattr(self._module, "Stream", None)
        return made() if made else torch.Stream(self._kind)

    def on(self, stream: Any) -> AbstractContextManager[object]:
        """While this stream is the current one."""
        entered = getattr(self._module, "stream", None)
        context: AbstractContextManager[object] = entered(stream) if entered else stream
        return context

    def limit_memory(self, nbytes: int) -> None:
        if limit := getattr(self._module, "set_per_process_memory_fraction", None):
            limit(min(1.0, nbytes / self._module.get_device_properties(0).total_memory), 0)

    def keep_busy(self, seconds: float) -> None:
        """Queue work that takes the device about so long, and leaves no more in its caches than what empties them."""
        if self._fill is None:
            self._fill = self._sleeper() or self._copier()
            self._fill(1)
            begin, end = self.event(), self.event()
            begin.record()
            self._fill(_UNITS_TIMED)
            end.record()
            self.synchronize()
            self._unit_seconds = max(float(begin.elapsed_time(end)) / 1e3 / _UNITS_TIMED, _LEAST_UNIT_SECONDS)
        self._fill(math.ceil(seconds / self._unit_seconds))

    def _sleeper(self) -> Callable[[int], None] | None:
        sleep = getattr(self._module, "_sleep", None)
        return None if sleep is None else lambda units: sleep(units * _CYCLES)

    def _copier(self) -> Callable[[int], None]:
        """A copy within the device is the one thing that every plugin queues."""
        source, copy = (torch.empty(_FILLER_BYTES, dtype=torch.uint8, device=self._kind) for _ in range(2))

        def fill(units: int) -> None:
            for _ in range(units):
                copy.copy_(source)

        return fill

    def _named(self, name: str) -> Any:
        return getattr(self._module, name, None) or getattr(torch.accelerator, name)
