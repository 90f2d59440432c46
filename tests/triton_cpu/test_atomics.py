"""Atomics of every type, and program instances that wait for each other."""

from __future__ import annotations

import multiprocessing
from multiprocessing import shared_memory
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu import set_num_threads
from kernelsmith.triton_cpu.run import launch


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@triton.jit
def every_update(x, out, old, B: tl.constexpr, INTEGER: tl.constexpr, WIDE: tl.constexpr):
    v = tl.load(x + tl.arange(0, B))
    at = tl.zeros([B], tl.int32)
    tl.atomic_add(out + at, v, sem="relaxed", scope="sys")
    if WIDE:
        tl.store(old + tl.arange(0, B), tl.atomic_max(out + 1 + at, v, sem="acquire"))
        tl.atomic_min(out + 2 + at, v, mask=tl.arange(0, B) != 1, sem="release", scope="cta")
        tl.atomic_xchg(out + 3 + at, v)
    if INTEGER:
        tl.atomic_and(out + 4 + at, v)
        tl.atomic_or(out + 5 + at, v)
        tl.atomic_xor(out + 6 + at, v)


TYPES = [torch.int32, torch.int64, torch.uint32, torch.uint64, torch.float32, torch.float64]


@pytest.mark.parametrize("dtype", [*TYPES, torch.float16, torch.bfloat16], ids=str)
def test_updates_of_one_place_by_many_lanes(dtype: torch.dtype) -> None:
    integer = not dtype.is_floating_point
    values = [3.0, -7.0, 5.0, 0.0, 2.0, -1.0, 6.0, 4.0] if dtype not in (torch.uint32, torch.uint64) else range(8)
    x = torch.tensor(list(values)).to(dtype)
    out, old = torch.zeros(7, dtype=dtype), torch.zeros(8, dtype=dtype)
    start = [0, 1, 2, 9, 13, 8, 0]
    out.copy_(torch.tensor(start).to(dtype))
    wide = dtype not in (torch.float16, torch.bfloat16)
    every_update[(1,)](x, out, old, B=8, INTEGER=integer, WIDE=wide)
    numbers = x.tolist()
    assert out[0] == sum(numbers)
    if wide:
        highest = [1]
        for number in numbers:
            highest.append(max(highest[-1], number))
        assert out[1] == highest[-1]
        if integer:  # floats are two updates: one of the positive lanes, then one of the others
            assert old.tolist() == highest[:-1]
        assert out[2] == min(2, *numbers[:1], *numbers[2:])
        assert out[3] == numbers[-1]
    if integer:
        both, either, odd = start[4:]
        for number in numbers:
            both, either, odd = both & number, either | number, odd ^ number
        assert out[4:].tolist() == [both, either, odd]


@triton.jit
def swap(x, out, B: tl.constexpr):
    index = tl.arange(0, B)
    tl.store(
        out + index, tl.atomic_cas(x + index // 2, index.to(x.dtype.element_ty), (index + 1).to(x.dtype.element_ty))
    )
    tl.store(out + B, tl.atomic_cas(x + 3, tl.full([], 8, x.dtype.element_ty), tl.full([], 1, x.dtype.element_ty)))


@pytest.mark.parametrize("dtype", [*TYPES, torch.float16, torch.int16], ids=str)
def test_compare_and_swap(dtype: torch.dtype) -> None:
    x, out = torch.tensor([0, 2, 5, 6]).to(dtype), torch.zeros(9, dtype=dtype)
    swap[(1,)](x, out, B=8)
    assert x.tolist() == [2, 4, 6, 1]
    assert out.tolist() == [0, 1, 2, 3, 5, 5, 6, 7, 8]


@triton.jit
def under_a_lock(lock, count, B: tl.constexpr):
    index = tl.arange(0, B)
    while tl.atomic_cas(lock, 0, 1, sem="acquire") == 1:
        pass
    tl.store(count + index, tl.load(count + index) + index)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0, sem="release")


@triton.jit
def meet(x, out, arrived, n):
    me = tl.program_id(0)
    tl.store(x + me, me + 1)
    tl.atomic_add(arrived, 1, sem="release")
    while tl.load(arrived, volatile=True) < n:
        pass
    tl.store(out + me, tl.load(x + (me + 1) % n))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_lock_and_a_barrier_across_the_grid_make_progress(threads: int) -> None:
    lock, count = torch.zeros(1, dtype=torch.int32), torch.zeros(16)
    x, out, arrived = torch.zeros(40), torch.zeros(40), torch.zeros(1, dtype=torch.int32)
    set_num_threads(threads)
    try:
        under_a_lock[(300,)](lock, count, B=16)
        meet[(40,)](x, out, arrived, 40)
    finally:
        set_num_threads(None)
    assert torch.equal(count, 300.0 * torch.arange(16))
    assert torch.equal(out, x.roll(-1))


ADD_ONE = """
module {
  tt.func public @add_one(%p: !tt.ptr<f16>) {
    %one = arith.constant 1.000000e+00 : f16
    %yes = arith.constant true
    %old = tt.atomic_rmw fadd, relaxed, sys, %p, %one, %yes : (!tt.ptr<f16>, f16, i1) -> f16
    tt.return
  }
}
"""


def _add(name: str) -> None:
    memory = shared_memory.SharedMemory(name)
    counter = np.ndarray((2,), dtype=np.float16, buffer=memory.buf)
    launch.compile_ttir(ADD_ONE).launch((900, 1, 1), [counter.ctypes.data + 2])
    del counter
    memory.close()


def test_processes_add_to_one_half_of_a_word() -> None:
    memory = shared_memory.SharedMemory(create=True, size=8)
    counter = np.ndarray((2,), dtype=np.float16, buffer=memory.buf)
    counter[:] = 0
    others = [multiprocessing.get_context("spawn").Process(target=_add, args=(memory.name,)) for _ in range(2)]
    for process in others:
        process.start()
    for process in others:
        process.join()
    found = counter.tolist()
    del counter
    memory.close()
    memory.unlink()
    assert found == [0, 1800]


POLL = """
module {
  tt.func public @poll(%x: !tt.ptr<i32>, %out: !tt.ptr<i32>) {
    %yes = arith.constant true
    %limit = arith.constant 1000000 : i64
    %one = arith.constant 1 : i32
    %me = tt.get_program_id x : i32
    %place = tt.addptr %out, %me : !tt.ptr<i32>, i32
    %lane = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>
    %base = tt.splat %x : !tt.ptr<i32> -> tensor<4x!tt.ptr<i32>>
    %p = tt.addptr %base, %lane : tensor<4x!tt.ptr<i32>>, tensor<4xi32>
    %first = arith.cmpi eq, %me, %one : i32
    scf.if %first {
      tt.atomic_store release, gpu, %x, %one, %yes : !tt.ptr<i32>
    }
    %found = tt.atomic_poll acquire, gpu, %x, %one : !tt.ptr<i32>, i32 -> i1
    %each = tt.atomic_poll relaxed, gpu, %p, %lane timeout %limit : LANES
    %value = tt.atomic_load acquire, gpu, %x, %found : (!tt.ptr<i32>, i1) -> i32
    %numbers = arith.extui %each : tensor<4xi1> to tensor<4xi32>
    %sum = "tt.reduce"(%numbers) <{axis = 0 : i32}> ({
    ^bb0(%a: i32, %b: i32):
      %c = arith.addi %a, %b : i32
      tt.reduce.return %c : i32
    }) : (tensor<4xi32>) -> i32
    %total = arith.addi %sum, %value : i32
    tt.store %place, %total : !tt.ptr<i32>
    tt.return
  }
}
""".replace("LANES", "tensor<4x!tt.ptr<i32>>, tensor<4xi32> -> tensor<4xi1>")


def test_atomic_loads_stores_and_polls_of_triton_3_9() -> None:
    x, out = np.array([0, 7, 2, 3], dtype=np.int32), np.zeros(2, dtype=np.int32)
    launch.compile_ttir(POLL).launch((2, 1, 1), [x.ctypes.data, out.ctypes.data])
    assert x.tolist() == [1, 7, 2, 3]
    assert out.tolist() == [3, 3]  # lanes 2 and 3 are found, lane 0 has changed and lane 1 never comes
