"""Occupancy against values worked out by hand from the limits of one multiprocessor."""

from __future__ import annotations

import pytest

from kernelsmith.compiled import Limiter, Resources
from kernelsmith.offline.occupancy import occupancy
from kernelsmith.targets import Multiprocessor

HOPPER = Multiprocessor(
    count=132,
    registers=65536,
    register_unit=256,
    partitions=4,
    threads=2048,
    warps=64,
    blocks=32,
    shared_memory_bytes=233472,
    shared_memory_reserved_bytes=1024,
)
CDNA3 = Multiprocessor(
    count=304,
    registers=131072,
    register_unit=512,
    partitions=4,
    threads=2048,
    warps=32,
    shared_memory_bytes=65536,
)


def taken(registers: int, warps: int, shared: int = 0, warp_size: int = 32) -> Resources:
    return Resources(warps=warps, threads=warps * warp_size, registers=registers, shared_bytes=shared)


@pytest.mark.parametrize(
    ("resources", "programs", "share", "limiter"),
    [
        # 128 x 32 = 4096 registers a warp, 16384 / 4096 = 4 warps in each of 4 partitions: 16 warps
        (taken(128, 4), 4, 0.25, Limiter.REGISTERS),
        # 33 x 32 = 1056 is rounded to 1280: 12 warps in a partition, 48 in all, 6 programs of 8
        (taken(33, 8), 6, 0.75, Limiter.REGISTERS),
        # 40 x 32 = 1280: 12 warps in a partition; what 4 partitions cannot hold together counts: 48 / 32 = 1 program
        (taken(40, 32), 1, 0.5, Limiter.REGISTERS),
        # 233472 / (49152 + 1024) = 4.65
        (taken(32, 4, shared=49152), 4, 0.25, Limiter.SHARED),
        # one warp each: 32 programs are the most
        (taken(16, 1), 32, 0.5, Limiter.PROGRAMS),
        # 64 warps / 4
        (taken(32, 4), 16, 1.0, Limiter.WARPS),
        # nothing else is asked once shared memory is short
        (taken(32, 4, shared=300_000), 0, 0.0, Limiter.SHARED),
    ],
)
def test_hopper(resources: Resources, programs: int, share: float, limiter: Limiter) -> None:
    found = occupancy(resources, HOPPER, 32)
    assert found is not None
    assert (found.programs, found.share, found.limiter) == (programs, share, limiter)
    assert found.warps == programs * resources.warps


@pytest.mark.parametrize(
    ("resources", "programs", "limiter"),
    [
        # 132 x 64 = 8448 is rounded to 8704: 3 wavefronts on each of 4 SIMDs, 12 / 4 = 3 programs
        (taken(132, 4, warp_size=64), 3, Limiter.REGISTERS),
        # 512 registers: one wavefront on each SIMD
        (taken(512, 4, warp_size=64), 1, Limiter.REGISTERS),
        # LDS holds 65536 / 32768 = 2
        (taken(64, 4, shared=32768, warp_size=64), 2, Limiter.SHARED),
    ],
)
def test_cdna3(resources: Resources, programs: int, limiter: Limiter) -> None:
    found = occupancy(resources, CDNA3, 64)
    assert found is not None
    assert (found.programs, found.limiter) == (programs, limiter)


def test_what_the_file_does_not_say_does_not_limit() -> None:
    found = occupancy(taken(255, 4, shared=200_000), Multiprocessor(count=1, warps=8), 32)
    assert found is not None
    assert (found.programs, found.limiter) == (2, Limiter.WARPS)
    assert occupancy(taken(32, 4), Multiprocessor(count=1), 32) is None
