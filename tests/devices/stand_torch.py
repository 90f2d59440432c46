"""A torch device made of Python, as a vendor's plugin makes one of hardware: `import stand_torch` and there is
`torch.stand`, with memory, a queue that runs behind the host, events, faults and operators that it lacks.

Work is done at once and takes its time on a simulated queue, so that times are what was simulated, however busy the
machine is. Where the device has no operator, torch computes it on the CPU in silence, by the same internal operator
(`aten::_to_cpu`) as a real plugin's fallback. Triton's CPU backend stands in for a compiler of the vendor's; its
launches are given this device's memory.
"""

from __future__ import annotations

import ctypes
import os
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from kernelsmith.triton_cpu import driver

aten = torch.ops.aten
KERNEL_SECONDS = 1e-3
"""What a kernel takes on the queue."""
SLOWNESS = 4
"""How much longer than on the host everything else takes there: so the host gets ahead of it."""
TOTAL_BYTES = 1 << 30
FAULT = "stand: a kernel wrote where nothing is"
BROKEN = "STAND_BREAKS"
"""Environment variable: the name of a kernel that breaks the device."""
LACKS = ("aten::exp",)
"""Operators that the device has not; there are more that its makers forgot, which end in the same way."""


class _Queue:
    """The time at which everything that was queued will have ended, and whether something has gone wrong."""

    def __init__(self) -> None:
        self.free = 0.0
        self.fault = ""

    def work(self, action: Callable[[], Any], seconds: float | None = None) -> Any:
        """Do it now; it takes the queue `seconds`, or in proportion to what it takes here."""
        begin = time.perf_counter()
        result = action()
        taken = SLOWNESS * (time.perf_counter() - begin) if seconds is None else seconds
        self.free = max(self.free, begin) + taken
        return result


QUEUE = _Queue()


class Event:
    """As torch.cuda.Event."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._at = 0.0

    def record(self) -> None:
        self._at = QUEUE.free = max(QUEUE.free, time.perf_counter())

    def query(self) -> bool:
        return time.perf_counter() >= self._at

    def elapsed_time(self, end: Event) -> float:
        return (end._at - self._at) * 1e3


class Stream:
    """There is one queue, whatever stream work is given to."""

    def wait_stream(self, other: Stream) -> None:
        assert isinstance(other, Stream)


class Module:
    """What `torch.stand` is."""

    limit_bytes = TOTAL_BYTES
    used_bytes = 0

    @staticmethod
    def is_available() -> bool:
        return True

    is_initialized = is_available

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def current_stream() -> Stream:
        return Stream()

    @staticmethod
    def stream(stream: Stream) -> AbstractContextManager[None]:
        return nullcontext()

    @staticmethod
    def synchronize() -> None:
        if QUEUE.fault:  # as on a GPU, nothing mends it
            raise RuntimeError(QUEUE.fault)
        while time.perf_counter() < QUEUE.free:
            time.sleep(0)

    @staticmethod
    def get_device_properties(device: int) -> SimpleNamespace:
        return SimpleNamespace(total_memory=TOTAL_BYTES)

    @staticmethod
    def set_per_process_memory_fraction(fraction: float, device: int) -> None:
        Module.limit_bytes = int(fraction * TOTAL_BYTES)


setattr(Module, "Event", Event)  # noqa: B010
setattr(Module, "Stream", Stream)  # noqa: B010
_setup_privateuseone_for_python_backend("stand", backend_module=Module)
_DEVICE = torch.device("stand:0")
_LIBRARY: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
_OTHERS: Any = torch.library.Library("_", "IMPL")  # type: ignore[no-untyped-call]
_AS_ON_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)


def _host(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of the device as one of the CPU, in the same memory."""
    storage = tensor.untyped_storage()
    empty = torch.empty(0, dtype=tensor.dtype)
    if not storage.nbytes():
        return empty.reshape(tensor.shape)
    memory = (ctypes.c_ubyte * storage.nbytes()).from_address(storage.data_ptr())
    flat = torch.frombuffer(memory, dtype=torch.uint8)
    return empty.set_(flat.untyped_storage(), tensor.storage_offset(), tensor.shape, tensor.stride())


def _made(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    last = sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    nbytes = 0 if 0 in size else (last + 1) * dtype.itemsize
    if Module.used_bytes + nbytes > Module.limit_bytes:
        raise torch.OutOfMemoryError(f"stand: {nbytes} bytes are not free")
    Module.used_bytes += nbytes
    block = torch.empty(nbytes + 512, dtype=torch.uint8)
    storage = torch._C._construct_storage_from_data_pointer(-(-block.data_ptr() // 512) * 512, _DEVICE, nbytes)
    weakref.finalize(storage, _freed, block, nbytes)
    tensor = torch._C._acc.create_empty_tensor(tuple(size), dtype)
    return _set(tensor, storage, 0, size, stride)


def _freed(block: torch.Tensor, nbytes: int) -> None:
    """Nothing lies in the block any more, which is kept by being an argument here."""
    Module.used_bytes -= nbytes


def _like(host: torch.Tensor) -> torch.Tensor:
    made = _made(host.shape, host.stride(), host.dtype)
    _host(made).copy_(host)
    return made


def _set(tensor: torch.Tensor, storage: Any, offset: int, size: Sequence[int], stride: Sequence[int]) -> torch.Tensor:
    op = aten.set_.source_Storage_storage_offset
    made: torch.Tensor = op.redispatch(_AS_ON_CPU, tensor, storage, offset, list(size), list(stride))
    return made


def _empty(size: Any, dtype: Any = None, **_: object) -> torch.Tensor:
    return _empty_strided(size, torch.empty(size, device="meta").stride(), dtype)


def _empty_strided(size: Any, stride: Any, dtype: Any = None, **_: object) -> torch.Tensor:
    return _made(size, stride, dtype or torch.get_default_dtype())


def _view(op: Any) -> Callable[..., torch.Tensor]:
    """An operator that only looks at memory in another way: it knows nothing of devices."""
    return lambda *args, **named: op.redispatch(_AS_ON_CPU, *args, **named)


def _copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    both = [_host(one) if one.device == _DEVICE else one for one in (target, source)]
    if _DEVICE not in (source.device, target.device):
        raise AssertionError("a copy within the host came here")
    if source.device != target.device:
        Module.synchronize()
        both[0].copy_(both[1])
    else:
        QUEUE.work(lambda: both[0].copy_(both[1]))
    return target


def _set_all(tensor: torch.Tensor, storage: Any) -> torch.Tensor:
    return _set(tensor, storage, 0, [storage.nbytes() // tensor.element_size()], [1])


def _set_as(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return _set(tensor, other.untyped_storage(), int(other.storage_offset()), other.shape, other.stride())


def _other(op: Any, *args: Any, **named: Any) -> Any:
    """Any other operator: on the device where it has it, else as plugins do it in silence."""
    given: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    own = op.name().partition(".")[0] not in LACKS

    def on_host(leaf: Any) -> Any:
        if isinstance(leaf, torch.device):
            return torch.device("cpu")
        if not isinstance(leaf, torch.Tensor) or leaf.device != _DEVICE:
            return leaf
        host = _host(leaf) if own else aten._to_cpu([leaf])[0]
        given[id(host)] = host, leaf
        return host

    def back(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return given[id(leaf)][1] if id(leaf) in given else _like(leaf)

    hosts = tree_map(on_host, (args, named))
    if own:
        result = QUEUE.work(lambda: op(*hosts[0], **hosts[1]))
    else:
        Module.synchronize()
        result = op(*hosts[0], **hosts[1])
    for host, leaf in given.values():
        if host.shape != leaf.shape:  # an `out` that was empty
            _set_as(leaf, _like(host))
        elif not own:
            _host(leaf).copy_(host)
    return tree_map(back, result)


for _name, _action in {
    "empty.memory_format": _empty,
    "empty_strided": _empty_strided,
    "set_.source_Storage_storage_offset": _set,
    "set_.source_Storage": _set_all,
    "set_.source_Tensor": _set_as,
    "as_strided": _view(aten.as_strided.default),
    "view": _view(aten.view.default),
    "_reshape_alias": _view(aten._reshape_alias.default),
    "_copy_from": _copy_from,
}.items():
    _LIBRARY.impl(_name, _action, "PrivateUse1")
_OTHERS.fallback(_other, "PrivateUse1")

_launch = driver._Launcher.__call__


def _queued(self: Any, *args: Any) -> None:
    """A launch of Triton's: on the queue, and what it does wrong shows when somebody waits."""
    QUEUE.work(lambda: _launch(self, *args), KERNEL_SECONDS)
    if os.environ.get(BROKEN):
        QUEUE.fault = FAULT


setattr(driver._Launcher, "__call__", _queued)  # noqa: B010
setattr(driver, "_refuse", lambda tensor: int(tensor.data_ptr()))  # noqa: B010
