"""Launches of checked builds, and of kernels with assertions, as Triton's driver does them.

    KERNELSMITH_CPU_CHECKED=1 KERNELSMITH_CPU_SCHEDULE=reversed pytest my_triton_tests.py

Invariant: a launch that finds a fault raises `CheckedLaunchError` once it has ended, whatever it wrote. What torch did
to a tensor is not known here, so all memory counts as written. Launches take turns: what one of them knows about memory
is kept for the next, and the search for masked-off values writes to it. Used by `driver`; imports numpy, so never at
the start.
"""

from __future__ import annotations

import json
import linecache
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from kernelsmith.errors import UsageError
from kernelsmith.faults import CheckedLaunchError, Fault, Schedule
from kernelsmith.triton_cpu.emit.sites import Watch
from kernelsmith.triton_cpu.run import pool
from kernelsmith.triton_cpu.run.launch import Grid, Kernel
from kernelsmith.triton_cpu.watch import monitor

_memory: monitor.Memory
_turn: threading.Lock


def _begin() -> None:
    """Also in a forked child: the thread that held the lock, halfway through a change of the memory, is not there."""
    global _memory, _turn
    _memory = monitor.Memory(assume_written=True)
    _turn = threading.Lock()


_begin()
os.register_at_fork(after_in_child=_begin)


class WatchedLaunch:
    """Runs one compiled kernel under its monitor. `kernel` lacks the entry, and `watch` is its `Watch` as JSON text."""

    def __init__(self, kernel: Kernel, watch: str) -> None:
        self._kernel = replace(kernel, watch=Watch.from_json(json.loads(watch)))

    def __call__(
        self, entry: int, grid: Grid, slots: Sequence[int | float], kinds: Sequence[str], values: Sequence[Any]
    ) -> None:
        """Runs a grid; `values` are the arguments whose slots these are, `kinds` their types in the signature.

        Raises CheckedLaunchError.
        """
        kernel = replace(self._kernel, entry=entry)
        schedule, seed = requested_schedule()
        segments = [_segment(value) for value in _per_slot(kinds, values, len(slots))]
        with pool.apart(), _turn:  # whoever holds the turn must not wait for one who wants it
            faults = monitor.run_checked(kernel, grid, slots, segments, _memory, schedule=schedule, seed=seed)
        if faults:
            raise CheckedLaunchError(tuple(map(_with_source, faults)))


def _with_source(fault: Fault) -> Fault:
    """The report with the kernel's own line. It is this process's kernel, so its file may be read."""
    file, _, line = (fault.location or "").rpartition(":")
    text = linecache.getline(file, int(line)).strip() if line.isdecimal() else ""
    return replace(fault, expression=text or fault.expression)


def requested_schedule() -> tuple[Schedule, int]:
    """What `KERNELSMITH_CPU_SCHEDULE` asks for: a schedule's name, and for `shuffled` maybe a seed (`shuffled:7`)."""
    text = os.environ.get("KERNELSMITH_CPU_SCHEDULE", Schedule.PARALLEL.value)
    name, _, seed = text.partition(":")
    if name not in set(Schedule) or (seed and not seed.isdecimal()):
        raise UsageError(
            f"KERNELSMITH_CPU_SCHEDULE={text!r} is no order of program instances",
            hint=f"one of {', '.join(Schedule)}; shuffled takes a seed, as in shuffled:7",
        )
    return Schedule(name), int(seed or 0)


def _segment(tensor: Any) -> monitor.Segment | None:
    if not hasattr(tensor, "data_ptr") or not hasattr(tensor, "stride"):
        return None
    return monitor.Segment(tensor.data_ptr(), tensor.element_size(), tuple(tensor.shape), tuple(tensor.stride()))


def _per_slot(kinds: Sequence[str], values: Sequence[Any], total: int) -> Iterator[Any]:
    """The argument behind each slot, as the driver lays them out; a tensor descriptor's base is behind its first."""
    descriptors = [value for kind, value in zip(kinds, values, strict=True) if kind.startswith("tensordesc")]
    least = len(kinds) + sum(4 * len(value.shape) for value in descriptors)
    flags = (total - least) // len(descriptors) if descriptors else 0
    for kind, value in zip(kinds, values, strict=True):
        if kind.startswith("tensordesc"):
            yield value.base
            yield from [None] * (flags + 4 * len(value.shape))
        else:
            yield value
