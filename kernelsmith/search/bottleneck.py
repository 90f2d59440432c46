"""What holds a measured kernel back on a workload, from what the judge found: one name, and the numbers that say so.

The order of the questions is that of a profiler's guide (Nsight Compute's "speed of light" first, then launch, memory
traffic, parallelism): a roofline that is nearly reached leaves nothing to mend, host time hides everything else, and so
on. Pure. Called by the briefing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from kernelsmith.estimate import Counts, Estimate, Limit, Unit
from kernelsmith.model import Evaluation, Timing
from kernelsmith.proposal import Bottleneck, Finding
from kernelsmith.text import size

NEAR_ROOFLINE = 0.8
HOST_SHARE = 0.3
MUCH_TRAFFIC = 1.5
"""Times the bytes of inputs and outputs."""
SCATTERED_SHARE = 0.5
"""Of the moved bytes that somebody asked for."""
SHORT_MS = 0.05
"""Of a kernel whose launches may dominate."""
MUCH_ARITHMETIC = 16.0
"""Operations per byte beyond which memory is hardly the limit: 10 to 20 on processors, more on accelerators."""
_LIMITS = {
    Limit.MEMORY: Bottleneck.TRAFFIC,
    Limit.MATRIX: Bottleneck.ARITHMETIC,
    Limit.VECTOR: Bottleneck.ARITHMETIC,
    Limit.SPECIAL: Bottleneck.ARITHMETIC,
    Limit.SCALAR: Bottleneck.ARITHMETIC,
    Limit.LATENCY: Bottleneck.PARALLELISM,
    Limit.LAUNCH: Bottleneck.LAUNCHES,
}


def findings(evaluation: Evaluation, units: int | None = None) -> tuple[Finding, ...]:
    """One per workload, in the operator's order; `units` is how many programs the device runs at once, if known."""
    counts = {one.workload: one for one in evaluation.counts}
    if evaluation.estimates:
        return tuple(_estimated(one) for one in evaluation.estimates)
    return tuple(_measured(t, counts.get(t.workload.label), units) for t in evaluation.timings)


def worst(evaluation: Evaluation, units: int | None = None) -> Finding | None:
    """Of the workload with the most to gain: its weight times the distance to the roofline, or to the baselines where
    no roofline is known."""
    found = findings(evaluation, units)
    if evaluation.timings:
        room = {t.workload.label: t.workload.weight * _distance(t) for t in evaluation.timings}
    else:
        room = {one.workload: -one.weight * math.log(one.roofline_share) for one in evaluation.estimates}
    return max(found, key=lambda one: room[one.workload], default=None)


def _distance(timing: Timing) -> float:
    """How much there may be to gain, as a logarithm."""
    total = timing.median_ms + timing.host_us / 1e3
    if timing.roofline:
        return math.log(total / (timing.median_ms * timing.roofline))
    return -math.log(min(timing.speedup.values())) if timing.speedup else 0.0


def _measured(timing: Timing, counts: Counts | None, units: int | None) -> Finding:
    bottleneck, evidence = next(_questions(timing, counts, units))
    return Finding(workload=timing.workload.label, bottleneck=bottleneck, evidence=evidence)


def _questions(timing: Timing, counts: Counts | None, units: int | None) -> Iterator[tuple[Bottleneck, str]]:
    """What answers to its description, the first being what to work on; the last one always does."""
    host = timing.host_us / (timing.host_us + 1e3 * timing.median_ms)
    share = timing.roofline
    if host > HOST_SHARE:
        yield Bottleneck.HOST, f"{timing.host_us:.0f} us of Python per call are {host:.0%} of the time"
    if share is not None and share >= NEAR_ROOFLINE:
        yield Bottleneck.MEMORY, f"{share:.0%} of the memory's bandwidth is reached with the least bytes possible"
    if counts is not None and counts.kernels:
        yield from _counted(timing, counts, units)
    reached = f"only {share:.0%} of the memory's bandwidth is reached" if share is not None else "no roofline is known"
    yield Bottleneck.LATENCY, f"{reached}, and neither traffic nor arithmetic explains it"


def _counted(timing: Timing, counts: Counts, units: int | None) -> Iterator[tuple[Bottleneck, str]]:
    kernels = counts.kernels
    moved = sum(work.read_bytes + work.written_bytes for work in kernels)
    asked = sum(work.asked_bytes for work in kernels)
    operations = sum(sum(work.operations.values()) for work in kernels)
    launches = sum(work.launches for work in kernels)
    programs = max(work.programs // max(1, work.launches) for work in kernels)
    if launches > 1 and timing.median_ms < SHORT_MS:
        yield Bottleneck.LAUNCHES, f"{launches} launches in {1e3 * timing.median_ms:.0f} us"
    if moved and asked < SCATTERED_SHARE * moved:
        yield Bottleneck.SCATTERED, f"of {size(moved)} that are moved only {size(asked)} were asked for"
    if units is not None and programs < units:
        yield Bottleneck.PARALLELISM, f"{programs} programs for {units} units that could each run one"
    if moved > MUCH_TRAFFIC * counts.needed_bytes > 0:
        times = moved / counts.needed_bytes
        yield (
            Bottleneck.TRAFFIC,
            f"{size(moved)} are read and written, {times:.1f} times the {size(counts.needed_bytes)} "
            "of inputs and outputs",
        )
    if operations > MUCH_ARITHMETIC * max(1, moved):
        matrix = sum(work.operations.get(unit, 0) for work in kernels for unit in Unit if unit.startswith("matrix"))
        of = f", {matrix / operations:.0%} of them on the matrix unit" if matrix else ""
        rate = operations / (timing.median_ms * 1e6)
        intensity = operations / max(1, moved)
        yield Bottleneck.ARITHMETIC, f"{intensity:.0f} operations per byte{of}; {rate:.3g} Gop/s are reached"


def _estimated(one: Estimate) -> Finding:
    parts = ", ".join(f"{limit.value} {us:.3g} us" for limit, us in sorted(one.parts.items(), key=lambda p: -p[1]))
    return Finding(workload=one.workload, bottleneck=_LIMITS[one.limit], evidence=f"estimated: {parts}")
