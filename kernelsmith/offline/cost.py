"""The cost model: counted work and what the compiler made of a kernel, against the peaks of the target's file, in
microseconds. An estimate for ranking kernels of one workload, not a prediction.

Pure. What a kernel takes is its slowest part (memory, matrix unit, vector unit, special functions), as a roofline says,
where memory is slower if too little is in flight (Little's law), and every unit if the programs do not divide among the
multiprocessors; launches come on top. docs/offline.md has the formulas. Invariant: a number that the target's file does
not give is assumed and said in `Estimate.assumed`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelsmith.compiled import Build, Occupancy, Resources
from kernelsmith.estimate import Counts, Estimate, Limit, Unit, Work
from kernelsmith.offline.occupancy import occupancy
from kernelsmith.targets import Target

TRANSACTION_BYTES = {"cuda": 32, "hip": 64, "xpu": 64, "npu": 32, "cpu": 64}
"""The least that memory moves: a sector of an NVIDIA L2 line (CUDA C++ Best Practices Guide, 10.2.1), a request of
CDNA's L2 (AMD CDNA 3 ISA, memory), a cache line of Intel's and of processors, a block of Ascend's unified buffer."""
LATENCY_SECONDS = 6e-7
"""Of global memory under load; 400 to 800 ns are published for A100 and H100 (Luo et al., arXiv 2402.13499)."""
LAUNCH_MICROSECONDS = 3.0
"""Between two short kernels of one stream."""
CACHE_SPEEDUP, NEAR_SPEEDUP = 3.0, 8.0
"""Over memory: of the cache that all programs share, and of the one that is a multiprocessor's own. Guesses: at a line
of 128 bytes a cycle the second would be some 12 times the bandwidth of A100 and 9 times that of H100."""
SPECIAL_SHARE = 1 / 8
"""Special functions per cycle against float32 multiply-adds: 16 to 128 lanes (CUDA C++ Programming Guide, arithmetic
throughput)."""
SCALAR_LOOP_MICROSECONDS, BARRIER_MICROSECONDS = 1.0, 0.1
"""Of Ascend, each in a program: guesses, which only order kernels."""
_GUESS_GB_PER_S, _GUESS_TFLOP_PER_S, _GUESS_MATRIX_TFLOP_PER_S = 1000.0, 10.0, 100.0
_PROCESSOR_LANES = 8
"""Elements of a vector register of a processor (AVX2, float32)."""
_BUFFERED, _DEFAULT_STREAMS = 2.0, 4.0
"""Streams of instructions, of which one computes while another waits: of two buffers; where nothing tells, a guess."""


@dataclass
class _Parts:
    """Microseconds, summed over the kernels of a workload."""

    alone: dict[Limit, float] = field(default_factory=lambda: defaultdict(float))
    total: float = 0.0
    occupancy: float | None = None
    waves: float | None = None


def transaction_bytes(target: Target) -> int:
    return TRANSACTION_BYTES.get(target.triton.backend, 64)


def estimates(target: Target, counted: Sequence[Counts], builds: Sequence[Build]) -> tuple[Estimate, ...]:
    """One per workload; `builds` are those for the target's chip. None at all where some work is not known: what is
    missing would be for nothing."""
    if any(one.missing for one in counted):
        return ()
    return tuple(_Model(target).estimate(counts, builds) for counts in counted)


class _Model:
    """The target's peaks, with what had to be assumed for them."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._assumed: dict[str, None] = {}
        peaks = target.peaks
        self._bytes_per_us = 1e3 * self._peak(peaks.memory_gb_per_s, _GUESS_GB_PER_S, "GB/s of memory")
        self._vector = 1e6 * self._peak(peaks.float32_tflop_per_s, _GUESS_TFLOP_PER_S, "TFLOP/s of float32")
        self._matrix = 1e6 * self._peak(
            peaks.bfloat16_tflop_per_s, _GUESS_MATRIX_TFLOP_PER_S, "TFLOP/s of the matrix unit"
        )
        self._units = _units(target)

    def _peak(self, given: object, guess: float, what: str) -> float:
        if isinstance(given, int | float):
            return float(given)
        self._assumed[f"{guess:g} {what}: no source gives it"] = None
        return guess

    def estimate(self, counts: Counts, builds: Sequence[Build]) -> Estimate:
        parts = _Parts()
        for work in counts.kernels:
            own = [b for b in builds if b.kernel == work.kernel and counts.workload in (*b.workloads, "")]
            self._add(parts, work, own[0].resources if own else None)
        parts.alone[Limit.LAUNCH] += LAUNCH_MICROSECONDS * sum(work.launches for work in counts.kernels)
        parts.total += parts.alone[Limit.LAUNCH]
        roofline = LAUNCH_MICROSECONDS + counts.needed_bytes / self._bytes_per_us
        return Estimate(
            target=self._target.name,
            workload=counts.workload,
            weight=counts.weight,
            microseconds=max(parts.total, LAUNCH_MICROSECONDS),
            parts=dict(parts.alone),
            limit=max(parts.alone, key=lambda limit: parts.alone[limit]),
            roofline_microseconds=roofline,
            occupancy=parts.occupancy,
            waves=parts.waves,
            assumed=(*self._assumed, *counts.assumed),
        )

    def _add(self, parts: _Parts, work: Work, taken: Resources | None) -> None:
        programs = work.programs / max(1, work.launches)
        if not programs:
            return
        machine = self._target.multiprocessor
        residents = occupancy(taken, machine, self._target.triton.warp_size) if taken and machine else None
        at_once = self._units * (residents.programs if residents and residents.programs else 1)
        memory, latency = self._memory(work, taken, min(programs, at_once))
        idle = math.ceil(programs / self._units) * self._units / programs
        units = {limit: idle * microseconds for limit, microseconds in self._operations(work, taken).items()}
        scalar = self._scalar(taken, programs)
        alone = {Limit.MEMORY: memory, Limit.LATENCY: latency, **units, Limit.SCALAR: scalar}
        for limit, microseconds in alone.items():
            if microseconds:
                parts.alone[limit] += microseconds
        slowest = max(memory + latency, *units.values())
        others = memory + latency + sum(units.values()) - slowest
        parts.total += slowest + others / self._streams(taken, residents, programs) + scalar
        if residents is not None:
            parts.occupancy = residents.share
        if taken is not None:
            parts.waves = programs / at_once

    def _memory(self, work: Work, taken: Resources | None, resident: float) -> tuple[float, float]:
        """What is new comes from memory, what other programs have touched from the cache that all share, what the same
        program has touched from its own; and what it takes longer because too few bytes are in flight."""
        moved = work.read_bytes + work.written_bytes
        spilled = 2.0 * (taken.spill_bytes or 0) * taken.threads * work.programs if taken else 0.0
        others = max(0, moved - work.distinct_bytes - work.again_bytes) + spilled
        near = min(work.again_bytes, moved - work.distinct_bytes)
        microseconds = (work.distinct_bytes + others / CACHE_SPEEDUP + near / NEAR_SPEEDUP) / self._bytes_per_us
        if self._target.multiprocessor is None or not work.rounds or not work.read_bytes:
            return microseconds, 0.0
        in_flight = resident * work.read_bytes / work.rounds
        wanted = self._bytes_per_us * 1e6 * LATENCY_SECONDS
        return microseconds, microseconds * max(0.0, wanted / in_flight - 1)

    def _operations(self, work: Work, taken: Resources | None) -> dict[Limit, float]:
        """An operation takes a slot of all lanes of its program, however few elements it has."""
        lanes = _PROCESSOR_LANES if self._target.torch_device == "cpu" else taken.threads if taken is not None else 1

        def slots(unit: Unit) -> float:
            return max(work.operations.get(unit, 0), lanes * work.issues.get(unit, 0))

        # one element takes the slot of a multiply-add, which peaks count as two operations
        vector = 2.0 * (slots(Unit.VECTOR_32) + slots(Unit.VECTOR_16) + 2 * slots(Unit.VECTOR_64))
        if self._target.cores is None:
            vector += 2.0 * slots(Unit.SCALAR)
        done = work.operations
        matrix = done.get(Unit.MATRIX_16, 0) + done.get(Unit.MATRIX_8, 0) / 2 + 2 * done.get(Unit.MATRIX_32, 0)
        if matrix and taken is not None and self._target.cores is None and not taken.matrix_instructions:
            vector += matrix  # the compiler found no use for the matrix unit
            matrix = 0
        return {
            Limit.MATRIX: matrix / self._matrix,
            Limit.VECTOR: vector / self._vector,
            Limit.SPECIAL: 2.0 * slots(Unit.SPECIAL) / (SPECIAL_SHARE * self._vector),
        }

    def _scalar(self, taken: Resources | None, programs: float) -> float:
        if taken is None or self._target.cores is None:
            return 0.0
        each = SCALAR_LOOP_MICROSECONDS * (taken.scalar_loops or 0) + BARRIER_MICROSECONDS * (taken.barriers or 0)
        return each * math.ceil(programs / self._units)

    def _streams(self, taken: Resources | None, residents: Occupancy | None, programs: float) -> float:
        """How many streams of instructions a unit chooses from: what the slowest part does not hide is told by it."""
        cores, machine = self._target.cores, self._target.multiprocessor
        if cores is not None:
            used = taken.unified_buffer_bytes if taken is not None else None
            return 1.0 if used is not None and 2 * used > cores.unified_buffer_bytes else _BUFFERED
        if machine is None or taken is None or residents is None:
            return _DEFAULT_STREAMS
        warps = taken.warps * min(residents.programs, programs / machine.count)
        return max(1.0, warps / (machine.partitions or 1))


def _units(target: Target) -> int:
    """How many programs the device runs at once, at one per multiprocessor."""
    if target.multiprocessor is not None:
        return target.multiprocessor.count
    return target.cores.vector if target.cores is not None else 1
