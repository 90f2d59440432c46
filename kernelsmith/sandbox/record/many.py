"""Many unrecorded calls of a host function, one after the other or several at once from threads, as users make them.

Each thread has arguments of its own, refilled before every call. Invariant: calls at once have all begun before the
first of them runs a kernel, and each leaves what it gave in its own slot. The recorder asks.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from kernelsmith.sandbox.record.returned import returned
from kernelsmith.sandbox.wire.arguments import Arguments
from kernelsmith.sandbox.wire.many import Answered, CalledMany, CallMany
from kernelsmith.sandbox.wire.memory import Arena
from kernelsmith.sandbox.wire.messages import Failed
from kernelsmith.sandbox.wire.tensors import python_arguments, region_bytes, torch_threads, write_outputs


class Device(Protocol):
    """What differs by device."""

    def place(self, host: torch.Tensor) -> torch.Tensor: ...

    def abreast(self, *, turns: bool) -> AbstractContextManager[object]:
        """Around the calls of one thread while other threads make theirs; with `turns` launches meet, where they
        can."""


class _RefusedError(Exception):
    """A call returned what is no tensor."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message)
        self.failed = failed


def call_many(
    host: Callable[..., Any], request: CallMany, arenas: Sequence[Arena], device: Device
) -> CalledMany | Failed:
    """Make the calls; raises what the host function raises."""
    lanes = [_Lane(host, request, number, arenas, device) for number in range(len(request.arguments))]
    answers: dict[int, Answered] = {}
    try:
        # helpers of torch's own would wait for a core, beside those of the kernels
        with torch_threads(1), _poisoned() if request.poison else contextlib.nullcontext():
            if len(lanes) == 1:
                lanes[0].work(answers, None)
            else:
                _at_once(lanes, answers)
    except _RefusedError as refused:
        return refused.failed
    return CalledMany(answers=tuple(answers[run] for run in range(len(request.contents))))


def _at_once(lanes: Sequence[_Lane], answers: dict[int, Answered]) -> None:
    start = threading.Barrier(len(lanes))
    with ThreadPoolExecutor(len(lanes)) as threads:
        working = [threads.submit(lane.work, answers, start) for lane in lanes]
        wait(working)
    errors = [error for work in working if (error := work.exception()) is not None]
    for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
        raise error  # a broken barrier only says that another thread failed


class _Lane:
    """The calls of one thread."""

    def __init__(
        self, host: Callable[..., Any], request: CallMany, number: int, arenas: Sequence[Arena], device: Device
    ) -> None:
        arguments: Arguments = request.arguments[number]
        self._host = host
        self._request = request
        self._runs = range(number, len(request.contents), len(request.arguments))
        self._inputs, self._outputs = arenas
        self._device = device
        self._bases = [device.place(region_bytes(self._inputs, region)) for region in arguments.regions]
        self._sizes = [region.nbytes for region in arguments.regions]
        self._positional, self._keywords = python_arguments(arguments, self._bases)

    def work(self, answers: dict[int, Answered], start: threading.Barrier | None) -> None:
        """All of its calls; with a barrier, each once every thread is ready for its own."""
        try:
            with torch.no_grad():
                for run in self._runs:
                    self._refill(run)
                    answers[run] = self._left(run, self._call(start))
        except BaseException:
            if start is not None:
                start.abort()
            raise

    def _refill(self, run: int) -> None:
        for base, region in zip(self._bases, self._request.contents[run], strict=True):
            base.copy_(region_bytes(self._inputs, region))

    def _call(self, start: threading.Barrier | None) -> object:
        if start is None:
            return self._host(*self._positional, **self._keywords)
        with self._device.abreast(turns=self._request.turns):
            start.wait()  # as long as the question may take: on a busy machine the others may be slow
            return self._host(*self._positional, **self._keywords)

    def _left(self, run: int, result: object) -> Answered:
        structure, outputs = returned(result)
        if isinstance(outputs, Failed):
            raise _RefusedError(outputs)
        slots = self._request.slots
        written, _ = write_outputs(outputs, self._outputs, slots.outputs(run, self._sizes), slots.end(run))
        for base, region in zip(self._bases, slots.storages(run, self._sizes), strict=True):
            region_bytes(self._outputs, region).copy_(base)
        return Answered(structure=structure, outputs=written)


@contextlib.contextmanager
def _poisoned() -> Iterator[None]:
    """What torch allocates holds NaN, or the largest integer, until somebody writes to it."""
    # the public function imports TorchInductor, which takes a second
    switch: Callable[..., None] = torch._C._set_deterministic_algorithms
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    switch(True, warn_only=True)
    try:
        yield
    finally:
        switch(before[0], warn_only=before[1])
