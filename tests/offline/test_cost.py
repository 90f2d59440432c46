"""The cost model: which of two kernels it takes for the slower one, and what it admits to have assumed."""

from __future__ import annotations

from typing import Any

from kernelsmith.compiled import Build, Resources
from kernelsmith.estimate import Counts, Estimate, Limit, Unit, Work
from kernelsmith.offline.cost import LAUNCH_MICROSECONDS, estimates
from kernelsmith.offline.fit import chip_of
from kernelsmith.targets import Target, load

H100, ASCEND = load("nvidia-h100"), load("ascend-910b3")
MEGABYTE = 1 << 20


def estimate(target: Target = H100, *, resources: dict[str, Any] | None = None, **work: Any) -> Estimate:
    chip = chip_of(H100)
    assert chip is not None
    taken = {"warps": 4, "threads": 128, "registers": 32, "spill_bytes": 0, "loads": {16: 4}} | (resources or {})
    build = Build(kernel="k", workloads=("w",), chip=chip, resources=Resources.model_validate(taken))
    done = {"programs": 10_000, "rounds": 10_000, "read_bytes": 64 * MEGABYTE, "distinct_bytes": 64 * MEGABYTE} | work
    counts = Counts(workload="w", needed_bytes=64 * MEGABYTE, kernels=(Work(kernel="k", **done),))
    (found,) = estimates(target, (counts,), (build,))
    return found


def test_a_copy_at_full_occupancy_is_near_the_roofline() -> None:
    found = estimate()
    assert found.limit is Limit.MEMORY and found.roofline_share > 0.95
    assert found.microseconds == found.parts[Limit.MEMORY] + LAUNCH_MICROSECONDS
    assert found.assumed == ()


def test_what_is_slower() -> None:
    best = estimate().microseconds
    assert estimate(read_bytes=512 * MEGABYTE).microseconds > best, "the same bytes again and again"
    assert estimate(resources={"spill_bytes": 256}, programs=200_000).microseconds > best, "spills"
    assert estimate(programs=16, rounds=16_000).microseconds > best, "too few programs in flight"
    assert estimate(launches=20).microseconds > best, "many launches"


def test_what_a_program_touches_again_is_nearer_than_what_another_has_touched() -> None:
    others, own = (estimate(read_bytes=512 * MEGABYTE, again_bytes=again) for again in (0, 448 * MEGABYTE))
    assert estimate().microseconds < own.microseconds < others.microseconds


def test_too_little_in_flight_is_no_fault_of_the_memory() -> None:
    few = estimate(programs=16, rounds=16 * 512)
    assert few.limit is Limit.LATENCY
    assert estimate(programs=16, rounds=16 * 4096).parts[Limit.LATENCY] > few.parts[Limit.LATENCY], (
        "a shorter loop body"
    )
    assert few.parts[Limit.MEMORY] == estimate().parts[Limit.MEMORY]


def test_an_operation_takes_all_lanes_however_few_elements_it_has() -> None:
    wide, narrow = (
        estimate(operations={Unit.VECTOR_32: 10**9}, issues={Unit.VECTOR_32: 10**9 // elements})
        for elements in (1024, 16)
    )
    assert narrow.parts[Limit.VECTOR] == 128 / 16 * wide.parts[Limit.VECTOR]


def test_what_the_slowest_part_hides_depends_on_how_many_warps_there_are() -> None:
    vector = {"operations": {Unit.VECTOR_32: 3 * 10**8}}
    many, one = (estimate(resources={"shared_bytes": nbytes}, **vector) for nbytes in (0, 200_000))
    assert many.microseconds - many.parts[Limit.MEMORY] < one.microseconds - one.parts[Limit.MEMORY]
    half, whole = (estimate(ASCEND, resources={"unified_buffer_bytes": n}, **vector) for n in (90_000, 190_000))
    assert whole.microseconds > half.microseconds, "a second set of buffers has room, or has not"


def test_the_matrix_unit_counts_only_if_the_compiler_used_it() -> None:
    dot = {"operations": {Unit.MATRIX_16: 10**12}}
    on_it = estimate(resources={"matrix_instructions": {"HGMMA": 4}}, **dot)
    beside = estimate(**dot)
    assert on_it.limit is Limit.MATRIX and beside.limit is Limit.VECTOR
    assert beside.microseconds > 5 * on_it.microseconds


def test_133_programs_take_as_long_as_264_on_132_multiprocessors() -> None:
    vector = {"operations": {Unit.VECTOR_32: 10**12}, "read_bytes": 0, "distinct_bytes": 0}
    waves = [estimate(programs=n, **vector).microseconds / n for n in (132, 133, 264)]
    assert waves[1] > 1.9 * waves[0] * 132 / 133
    assert abs(waves[2] * 264 - waves[0] * 132) / (waves[0] * 132) < 0.01


def test_peaks_that_no_source_gives_are_said_to_be_assumed() -> None:
    unknown = H100.model_copy(update={"peaks": H100.peaks.model_copy(update={"memory_gb_per_s": "measure"})})
    assert any("GB/s of memory" in text for text in estimate(unknown).assumed)
