"""Launches that meet: threads take turns, program by program, and nobody waits for one who has left."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import kernelsmith.triton_cpu as cpu
from kernelsmith.triton_cpu.run import launch, pool
from tests.triton_cpu.test_runtime import HEAD, kernel

DIARY = f"""{HEAD} {{
    int *diary = (int *)args[0];
    for (long p = lo; p < hi; p++) diary[1 + __atomic_fetch_add(diary, 1, 5)] = (int)args[1];
}}"""
LONGEST = 30.0


@pytest.fixture(scope="module")
def diary_kernel() -> launch.Kernel:
    return kernel(DIARY, ("*i32", "i32"))


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    cpu.set_num_threads(2)
    yield
    cpu.set_num_threads(None)


def together(*works: Callable[[], object]) -> None:
    """Every work in a thread with a seat of its own."""
    start = threading.Barrier(len(works))

    def seated(work: Callable[[], object]) -> None:
        with pool.meeting():
            start.wait(LONGEST)
            work()

    with ThreadPoolExecutor(len(works)) as threads:
        for done in [threads.submit(seated, work) for work in works]:
            done.result(LONGEST)


def written(diary: np.ndarray) -> list[int]:
    return diary[1 : 1 + diary[0]].tolist()


def test_launches_of_several_threads_take_turns(diary_kernel: launch.Kernel) -> None:
    diary = np.zeros(100, dtype=np.int32)
    calls = [diary_kernel.bind((5, 1, 1), [diary.ctypes.data, name]) for name in (1, 2, 3)]
    together(*calls)
    notes = written(diary)
    assert notes == notes[:3] * 5 and sorted(notes[:3]) == [1, 2, 3]


def test_a_thread_that_launches_less_holds_nobody_up(diary_kernel: launch.Kernel) -> None:
    diary = np.zeros(100, dtype=np.int32)
    one, two = (diary_kernel.bind((2, 1, 1), [diary.ctypes.data, name]) for name in (1, 2))

    def twice() -> None:
        one()
        one()

    together(twice, two, lambda: None)
    assert sorted(written(diary)[:4]) == [1, 1, 2, 2] and written(diary)[4:] == [1, 1]


def test_grids_of_other_sizes_end_with_their_own_last_program(diary_kernel: launch.Kernel) -> None:
    diary = np.zeros(2000, dtype=np.int32)
    sizes = {1: 3, 2: 700, 3: 1}
    together(*(diary_kernel.bind((size, 1, 1), [diary.ctypes.data, name]) for name, size in sizes.items()))
    assert {name: written(diary).count(name) for name in sizes} == sizes


def test_who_has_no_seat_waits_for_nobody(diary_kernel: launch.Kernel) -> None:
    diary = np.zeros(100, dtype=np.int32)
    with pool.meeting():
        with ThreadPoolExecutor(1) as threads:
            threads.submit(diary_kernel.launch, (3, 1, 1), [diary.ctypes.data, 1]).result(LONGEST)
        with pool.apart():
            diary_kernel.launch((3, 1, 1), [diary.ctypes.data, 2])
        diary_kernel.launch((3, 1, 1), [diary.ctypes.data, 3])
    assert written(diary) == [1, 1, 1, 2, 2, 2, 3, 3, 3]
