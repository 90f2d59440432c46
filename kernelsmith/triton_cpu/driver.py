"""The driver half of the Triton backend: when it is active, how binaries are loaded, and how kernels are launched.

Invariant: imported by every `import triton`, so nothing but the standard library and Triton at module level, and
exactly one concrete subclass of DriverBase. torch is imported inside methods only. Called by Triton.
"""

from __future__ import annotations

from kernelsmith.triton_cpu import triton_first  # noqa: F401  # isort: skip

import _ctypes
import ctypes
import os
import platform
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from kernelsmith.errors import UsageError
from kernelsmith.triton_cpu.isa import host_isa
from kernelsmith.triton_cpu.run import pool
from kernelsmith.triton_cpu.run.launch import Kernel, entry_of, pack_slot

if TYPE_CHECKING:
    from kernelsmith.triton_cpu.watch.watched import WatchedLaunch

# Scalar types of a Triton signature (and of TTIR, where they differ) as one 8-byte slot each.
_SCALARS = {
    **dict.fromkeys(("i1", "u1"), ("?7x", "bool")),
    "i8": ("b7x", "int8_t"),
    "u8": ("B7x", "uint8_t"),
    "i16": ("h6x", "int16_t"),
    "u16": ("H6x", "uint16_t"),
    "i32": ("i4x", "int32_t"),
    "u32": ("I4x", "uint32_t"),
    "i64": ("q", "int64_t"),
    "u64": ("Q", "uint64_t"),
    **dict.fromkeys(("fp16", "f16"), ("e6x", "float")),
    **dict.fromkeys(("fp32", "f32"), ("f4x", "float")),
    **dict.fromkeys(("fp64", "f64"), ("d", "double")),
}
_CACHE_BYTES = 64 << 20
_UNLIMITED = 2**31 - 1


class _Utils:
    """What Triton asks of a device beside launching."""

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[ctypes.CDLL, int, int, int, int]:
        """Returns the library, the entry's address, and the registers, spills and threads that mean nothing here.

        Never 0 registers: programs divide by them to learn how many instances fit.
        """
        library = pool.load_library(kernel)
        return library, entry_of(library), 1, 0, _UNLIMITED

    def unload_module(self, module: ctypes.CDLL) -> None:
        _ctypes.dlclose(module._handle)

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {
            "max_shared_mem": _UNLIMITED,
            "max_num_regs": _UNLIMITED,
            "multiprocessor_count": pool.get_num_threads(),
            "warpSize": 1,
        }


class _Launcher:
    """Packs the arguments of one compiled kernel and runs its grid; Triton keeps one per kernel."""

    def __init__(self, src: Any, metadata: Any) -> None:
        self._kinds: list[str] = list(metadata.slot_types)
        self._scratch_bytes: int = metadata.scratch_bytes
        self._leaves = list(_leaves(list(src.signature.values())))
        self._threads: int = metadata.num_cpu_threads
        self._launch = pool.load_waiting() if metadata.waits else pool.load()
        self._watched: WatchedLaunch | None = None
        if metadata.watch is not None:
            from kernelsmith.triton_cpu.watch.watched import WatchedLaunch

            kernel = Kernel(
                metadata.name, tuple(self._kinds), self._scratch_bytes, 0, None, metadata.waits, threads=self._threads
            )
            self._watched = WatchedLaunch(kernel, metadata.watch)
        # The fast path: no tuples, no descriptors, every type known to `struct`.
        self._picks = [(path[0], kind.startswith("*")) for path, kind in self._leaves]
        codes = ["Q" if kind.startswith("*") else _SCALARS.get(kind, ("", ""))[0] for _, kind in self._leaves]
        simple = all(codes) and all(len(path) == 1 for path, _ in self._leaves) and len(codes) == len(self._kinds)
        self._pack = struct.Struct(pool.REQUEST_HEADER + "".join(codes)).pack if simple else None

    def __call__(
        self,
        grid_x: int,
        grid_y: int,
        grid_z: int,
        stream: int,
        function: int,
        packed_metadata: object,
        launch_metadata: object,
        enter_hook: Callable[[object], object] | None,
        exit_hook: Callable[[object], object] | None,
        *args: Any,
    ) -> None:
        if enter_hook is not None:
            enter_hook(launch_metadata)
        if self._watched is not None:
            kinds, values = [kind for _, kind in self._leaves], [_at(args, path) for path, _ in self._leaves]
            slots = list(_slots(kinds, values, len(self._kinds)))
            self._watched(function, (grid_x, grid_y, grid_z), slots, kinds, values)
        else:
            self._launch(self._request(function, (grid_x, grid_y, grid_z), args))
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _request(self, function: int, grid: tuple[int, int, int], args: tuple[Any, ...]) -> bytes:
        if self._pack is not None and grid[0] >= 0 <= grid[1] and grid[2] >= 0:
            try:
                slots = [
                    (args[i].data_ptr() if args[i].is_cpu else _refuse(args[i])) if pointer else args[i]
                    for i, pointer in self._picks
                ]
                threads = self._threads or pool.get_num_threads()
                return self._pack(function, self._scratch_bytes, *grid, threads, *slots)
            except (AttributeError, struct.error, OverflowError):
                pass  # an address given as an int, a number out of its type's range: rare, so treated with care below
        flat = [_at(args, path) for path, _ in self._leaves]
        slots = list(_slots([kind for _, kind in self._leaves], flat, len(self._kinds)))
        return pool.header(function, grid, self._scratch_bytes, self._threads) + b"".join(
            map(pack_slot, self._kinds, slots)
        )


def _leaves(kinds: Sequence[Any], path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], str]]:
    """Where each run-time argument sits in (nested tuples of) parameters, with its type; constexprs left out."""
    for i, kind in enumerate(kinds):
        if isinstance(kind, (tuple, list)):
            yield from _leaves(kind, (*path, i))
        elif kind != "constexpr":
            yield (*path, i), kind


def _at(args: Any, path: tuple[int, ...]) -> Any:
    for i in path:
        args = args[i]
    return args


def _slots(kinds: list[str], values: list[Any], total: int) -> Iterator[int | float]:
    """Slot values in order. A tensor descriptor becomes what Triton's rewriting pass makes of it.

    That is: address, shape, strides, one flag (NaN padding) or since Triton 3.7 two (tf32 rounding), shape, strides.
    """
    descriptors = [value for kind, value in zip(kinds, values, strict=True) if kind.startswith("tensordesc")]
    least = len(kinds) + sum(1 + 4 * len(value.shape) for value in descriptors)
    flags = 1 + (total - least) // len(descriptors) if descriptors else 0
    for kind, value in zip(kinds, values, strict=True):
        if kind.startswith("*"):
            yield _address(value)
        elif not kind.startswith("tensordesc"):
            yield value
        else:
            extent = [*value.shape, *value.strides]
            nan_padding = int(getattr(value, "padding", "zero") == "nan")
            round_tf32 = int(bool(getattr(value, "round_f32_to_tf32", False)))
            yield from [_address(value.base), *extent, *[nan_padding, round_tf32][:flags], *extent]


def _address(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    if not hasattr(value, "data_ptr"):
        raise TypeError(f"a pointer argument must be a tensor or an address, not {type(value).__name__}")
    device = getattr(value, "device", None)
    if device is not None and device.type != "cpu":
        _refuse(value)
    return int(value.data_ptr())


def _refuse(tensor: Any) -> NoReturn:
    raise UsageError(
        f"a tensor on {tensor.device} was given to a kernel compiled for the CPU",
        hint="move it with .cpu(), or let Triton use the accelerator's own driver",
    )


class _Event:
    """The part of torch.cuda.Event that Triton's benchmark uses; launches here end before they return."""

    def __init__(self, enable_timing: bool = True) -> None:
        self._seconds = 0.0

    def record(self) -> None:
        self._seconds = time.perf_counter()

    def elapsed_time(self, end: _Event) -> float:
        """Milliseconds from this event to `end`."""
        return (end._seconds - self._seconds) * 1e3


class _DeviceInterface:
    """The part of the `torch.cuda` module that Triton's benchmark uses."""

    Event = _Event

    @staticmethod
    def synchronize(device: object = None) -> None:
        """Launches end before they return."""

    @staticmethod
    def current_device() -> int:
        return 0


class CPUDriver(DriverBase):  # type: ignore[misc]
    """The CPU as one Triton device. `triton.runtime.driver.set_active(CPUDriver())` chooses it beside a GPU."""

    launcher_cls = _Launcher

    def __init__(self) -> None:
        super().__init__()
        self.utils = _Utils()

    @classmethod
    def is_active(cls) -> bool:
        """True if asked for by TRITON_DEFAULT_BACKEND=cpu (Triton 3.7 on), or if no other backend is active.

        Two active drivers are an error in Triton, so on a machine with a GPU this one stays out of the way.
        """
        import triton
        from triton.backends import backends

        version = tuple(int(part) for part in triton.__version__.split(".")[:2])
        if os.environ.get("TRITON_DEFAULT_BACKEND") == "cpu" and version >= (3, 7):
            return True
        others = [backend.driver for backend in backends.values() if backend.driver is not cls]
        return not any(driver.is_active() for driver in others)

    def map_python_to_cpp_type(self, ty: str) -> str:
        if ty.startswith("*"):
            return "void*"
        return "float" if ty == "bf16" else _SCALARS[ty][1]

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cpu", f"{platform.machine()}-{host_isa().name}", 1)

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        """There is one CPU."""

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> type[_DeviceInterface]:
        return _DeviceInterface

    def get_benchmarker(self) -> Callable[..., Any]:
        from triton.testing import do_bench

        benchmark: Callable[..., Any] = do_bench
        return benchmark

    def get_empty_cache_for_benchmark(self) -> Any:
        import torch

        return torch.empty(_CACHE_BYTES // 4, dtype=torch.int32)

    def clear_cache(self, cache: Any) -> None:
        cache.zero_()
