"""Programs that take turns at their atomic operations: what goes wrong between two of them does so in most runs."""

from __future__ import annotations

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.faults import Schedule
from kernelsmith.triton_cpu.watch import watched

PROGRAMS = 40


@triton.jit
def raise_by_looking(y, BLOCK: tl.constexpr):
    mine = tl.program_id(0) + 1
    if mine > tl.atomic_add(y, 0):
        tl.atomic_xchg(y, mine)


@triton.jit
def raise_at_once(y, BLOCK: tl.constexpr):
    tl.atomic_max(y, tl.program_id(0) + 1)


@triton.jit
def count_and_wait(arrived, y, BLOCK: tl.constexpr):
    """A barrier: the first programs wait for some that have not begun."""
    tl.atomic_add(arrived, 1, sem="acq_rel")
    while tl.atomic_add(arrived, 0, sem="acquire") < tl.num_programs(0):
        pass
    tl.store(y + tl.program_id(0), tl.atomic_add(arrived, 0))


@pytest.fixture(autouse=True)
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_CPU_CHECKED", "1")


def highest(kernel: object, seed: int, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("KERNELSMITH_CPU_SCHEDULE", f"interleaved:{seed}")
    y = torch.zeros((), dtype=torch.int32)
    kernel[(PROGRAMS,)](y, BLOCK=1)  # type: ignore[index]
    return int(y)


def test_an_update_between_look_and_store_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [highest(raise_by_looking, seed, monkeypatch) for seed in range(8)]
    assert min(found) < PROGRAMS and found == [highest(raise_by_looking, seed, monkeypatch) for seed in range(8)]


def test_one_atomic_operation_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {highest(raise_at_once, seed, monkeypatch) for seed in range(8)} == {PROGRAMS}


def test_programs_that_others_wait_for_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_CPU_SCHEDULE", "interleaved:3")
    arrived, y = torch.zeros((), dtype=torch.int32), torch.zeros(PROGRAMS, dtype=torch.int32)
    count_and_wait[(PROGRAMS,)](arrived, y, BLOCK=1)
    assert (y == PROGRAMS).all()


def test_the_order_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_CPU_SCHEDULE", "interleaved:7")
    assert watched.requested_schedule() == (Schedule.INTERLEAVED, 7)
