"""Lets programs written for tensors on "cuda" run on the CPU, unchanged: the one place that knows how.

Owns the pretence: device names given to PyTorch are turned into the CPU, tensors answer that they are on "cuda:0",
and `torch.cuda` answers like one device of this machine. Invariant: only devices change, never values, sizes or
dtypes. Called once at the start of a child process (`pretend`), before the program is imported. Needs Triton 3.7 on.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_CUDA = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_DEVICE = torch.Tensor.device.__get__
_IS_CUDA = torch.Tensor.is_cuda.__get__  # type: ignore[attr-defined]


def _moved(value: Any) -> Any:
    """The same argument with "cuda", "cuda:0" and `torch.device("cuda")` as the CPU."""
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    if isinstance(value, torch.device) and value.type == "cuda":
        return _CPU
    return value


def _is_cpu(value: object) -> bool:
    return value == "cpu" or value == _CPU


class CudaIsCpu(TorchFunctionMode):
    """Sends every PyTorch call to the CPU; `shown` says whether a tensor asked for its device answers "cuda:0"."""

    shown = True

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func == _DEVICE:
            device = func(*args)
            return _CUDA if self.shown and device.type == "cpu" else device
        if func == _IS_CUDA:
            return args[0].is_cpu
        if func is torch.Tensor.get_device:
            return 0
        if func in (torch.Tensor.cuda, torch.Tensor.pin_memory):
            return args[0]
        if func is torch.Tensor.cpu:
            return args[0].clone()
        if func is torch.Tensor.to and any(map(_is_cpu, (*args[1:], *kwargs.values()))):
            kwargs["copy"] = True  # a copy to the host is one, as it would be from a GPU
        if isinstance(kwargs.get("device"), int):
            kwargs["device"] = _CPU
        if "pin_memory" in kwargs:
            kwargs["pin_memory"] = False
        return func(*map(_moved, args), **{name: _moved(value) for name, value in kwargs.items()})


_MODE = CudaIsCpu()


def inside(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` called with the pretence on; PyTorch lifts it while it dispatches or runs a backward pass."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with _MODE:
            return function(*args, **kwargs)

    return call


def outside(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` called with the pretence off: for this backend's own launcher."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return function(*args, **kwargs)

    return call


class _Generator:
    """The default random generator of a GPU as far as programs look into it: Philox seed and offset, 16 bytes."""

    def __init__(self) -> None:
        self.device = _CUDA
        self._state = torch.tensor([0, 0], dtype=torch.int64)

    def manual_seed(self, seed: int) -> _Generator:
        self._state = torch.tensor([seed % 2**63, 0], dtype=torch.int64)
        return self

    def initial_seed(self) -> int:
        return int(self._state[0])

    def get_state(self) -> torch.Tensor:
        return self._state.clone().view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> _Generator:
        self._state = state.clone().view(torch.int64)
        return self


class _Event:
    def __init__(self, *_: object, **__: object) -> None:
        self._seconds = 0.0

    def record(self, *_: object) -> None:
        self._seconds = time.perf_counter()

    def elapsed_time(self, end: _Event) -> float:
        return (end._seconds - self._seconds) * 1e3

    def synchronize(self) -> None:
        """Launches end before they return."""

    def wait(self, *_: object) -> None:
        """Launches end before they return."""


class _Stream(contextlib.nullcontext[None]):
    """A stream: every launch ends before it returns, so there is nothing to order."""

    cuda_stream = 0
    device = _CUDA

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()

    def synchronize(self) -> None:
        """Launches end before they return."""

    def wait_stream(self, *_: object) -> None:
        """Launches end before they return."""


@contextlib.contextmanager
def _same_device(*_: object) -> Iterator[None]:
    yield


def _device_properties(*_: object) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name="CPU",
        major=8,
        minor=0,
        multi_processor_count=os.cpu_count() or 1,
        total_memory=8 << 30,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block=99 << 10,
        shared_memory_per_multiprocessor=164 << 10,
        L2_cache_size=40 << 20,
        warp_size=32,
        regs_per_multiprocessor=65536,
    )


def _pretend_cuda() -> None:
    """`torch.cuda` as one idle device of compute capability 8.0: no feature of a later one is promised."""
    generator = _Generator()
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "is_bf16_supported": lambda *_, **__: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda *_: "CPU",
        "get_device_capability": lambda *_: (8, 0),
        "get_device_properties": _device_properties,
        "mem_get_info": lambda *_: (8 << 30, 8 << 30),
        "memory_allocated": lambda *_: 0,
        "max_memory_allocated": lambda *_: 0,
        "current_stream": _Stream,
        "default_stream": _Stream,
        "manual_seed": generator.manual_seed,
        "manual_seed_all": generator.manual_seed,
        "get_rng_state": lambda *_: generator.get_state(),
        "set_rng_state": lambda state, *_: generator.set_state(state),
    }
    for name in ("synchronize", "empty_cache", "set_device", "set_stream", "init", "reset_peak_memory_stats"):
        answers[name] = lambda *_, **__: None
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    classes = {"Event": _Event, "Stream": _Stream, "device": _same_device, "stream": _same_device}
    for name, stand_in in classes.items():
        setattr(torch.cuda, name, stand_in)
    torch.cuda.default_generators = (generator,)  # type: ignore[assignment]


def _pretend_dispatch() -> None:
    """Operators registered for CUDA are registered for the CPU; they, and backward passes, run with the pretence on."""
    register: Any = torch.library.Library.impl

    def impl(self: Any, name: Any, function: Any, key: str = "", **options: Any) -> Any:
        return register(self, name, inside(function), key.replace("CUDA", "CPU"), **options)

    torch.library.Library.impl = impl  # type: ignore[method-assign, assignment]
    node: Any = torch.autograd.function.BackwardCFunction
    node.apply = inside(node.apply)


def _address(value: Any) -> int:
    """A pointer argument's address; what looks like a tensor (FlagGems' StridedBuffer) may hold a device's old name."""
    return value if isinstance(value, int) else 0 if value is None else int(value.data_ptr())


def pretend(shown: bool = True) -> None:
    """Switches the pretence on for the rest of this process, and makes this backend Triton's active one.

    With `shown` off, tensors say that they are on the CPU: for programs that ask Triton for the device.
    """
    import triton

    from kernelsmith.triton_cpu import driver

    driver._address = _address
    driver._Launcher.__call__ = outside(driver._Launcher.__call__)  # type: ignore[method-assign]
    triton.runtime.driver.set_active(driver.CPUDriver())
    _MODE.shown = shown
    _pretend_cuda()
    _pretend_dispatch()
    _MODE.__enter__()  # type: ignore[no-untyped-call]


def main(arguments: list[str]) -> None:
    """`python -m benchmarks.triton_cpu.as_cuda PROGRAM [ARGUMENTS]`."""
    import runpy

    pretend()
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
