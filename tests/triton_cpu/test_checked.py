"""Checked builds through Triton: each kind of fault is found where it is, and honest kernels raise nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.errors import UsageError
from kernelsmith.faults import CheckedLaunchError, Fault, FaultKind, Schedule
from kernelsmith.triton_cpu.run.launch import compile_ttir
from kernelsmith.triton_cpu.watch import monitor


@pytest.fixture(autouse=True)
def checked_builds(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton-checked"))
    monkeypatch.setenv("KERNELSMITH_CPU_CHECKED", "1")


def faults(launch: object, *arguments: object, **constants: object) -> tuple[Fault, ...]:
    """What a launch of `kernel[grid]` reports."""
    try:
        launch(*arguments, **constants)  # type: ignore[operator]
    except CheckedLaunchError as error:
        return error.faults
    return ()


def line_of(text: str) -> int:
    """The number of this file's only line that ends in `# text`."""
    lines = Path(__file__).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}")]
    return number


@triton.jit
def add(x, y, out, n, B: tl.constexpr, MASKED: tl.constexpr):
    index = tl.program_id(0) * B + tl.arange(0, B)
    if MASKED:
        mask = index < n
        tl.store(out + index, tl.load(x + index, mask=mask) + tl.load(y + index, mask=mask), mask=mask)
    else:
        value = tl.load(x + index)  # unmasked load
        tl.store(out + index, value, mask=index < n)


def test_honest_masks_raise_nothing_and_the_result_is_right() -> None:
    x, y, out = torch.rand(1000), torch.rand(1000), torch.empty(1000)
    assert faults(add[(8,)], x, y, out, 1000, B=128, MASKED=True) == ()
    assert torch.equal(out, x + y)


def test_a_load_past_the_end_names_line_program_lane_tensor_and_index() -> None:
    x, out = torch.rand(1000), torch.empty(1000)
    (fault,) = faults(add[(8,)], x, x, out, 1000, B=128, MASKED=False)
    assert fault.kind is FaultKind.OUT_OF_BOUNDS
    assert fault.location == f"{__file__}:{line_of('unmasked load')}"
    assert fault.expression is not None and fault.expression.startswith("value = tl.load(x + index)")
    assert (fault.program, fault.lane, fault.tensor, fault.index) == ((7, 0, 0), (104,), "x", (1000,))
    assert fault.count == 24
    assert torch.equal(out, x)


def test_memory_between_a_views_elements_is_out_of_bounds() -> None:
    storage = torch.rand(8, 128)
    (fault,) = faults(add[(1,)], storage[:, :100], torch.rand(128), torch.empty(128), 128, B=128, MASKED=True)
    assert fault.kind is FaultKind.OUT_OF_BOUNDS
    assert "between its elements" in fault.detail
    assert fault.lane == (100,)


@triton.jit
def write_rows(out, width, PER_PROGRAM: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0) * PER_PROGRAM
    tl.store(out + row * width + tl.arange(0, B), tl.program_id(0) + tl.zeros([B], tl.int32))  # row store


def test_two_programs_that_write_one_element_race() -> None:
    out = torch.zeros(8, 64, dtype=torch.int32)
    assert faults(write_rows[(8,)], out, 64, PER_PROGRAM=1, B=64) == ()
    (fault,) = faults(write_rows[(8,)], out, 32, PER_PROGRAM=1, B=64)
    assert fault.kind is FaultKind.RACE
    assert fault.other is not None and fault.other != fault.program
    assert fault.location == f"{__file__}:{line_of('row store')}"


@triton.jit
def shift(x, n):
    me = tl.program_id(0)
    tl.store(x + me, tl.load(x + (me + 1) % n))


def test_a_read_of_what_another_program_writes_is_a_race_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for schedule in Schedule:
        monkeypatch.setenv("KERNELSMITH_CPU_SCHEDULE", schedule.value)
        found = faults(shift[(16,)], torch.rand(16), 16)
        assert {fault.kind for fault in found} == {FaultKind.RACE}, schedule


@triton.jit
def gather_then_overwrite(x, n):
    me = tl.program_id(0)
    if me < n - 1:
        tl.load(x, volatile=False)
    total = tl.load(x)
    tl.store(x + me + 1, total)
    if me == 0:
        tl.store(x, 1.0)  # overwrites what all read


def test_a_write_of_what_several_read_is_a_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_CPU_SCHEDULE", "reversed")
    (fault,) = faults(gather_then_overwrite[(4,)], torch.zeros(5), 4)
    assert (fault.kind, fault.location) == (FaultKind.RACE, f"{__file__}:{line_of('overwrites what all read')}")
    assert fault.other is None


@triton.jit
def again_and_again(out, rounds, B: tl.constexpr):
    lane = tl.arange(0, B)
    for i in range(rounds):
        tl.store(out + lane * 2, i)
        tl.store(out + lane // 2 * 2, 7 + tl.zeros([B], tl.int32))


def test_a_program_may_write_an_element_as_often_as_it_likes() -> None:
    assert faults(again_and_again[(1,)], torch.zeros(64, dtype=torch.int32), 40_000, B=32) == ()


def test_overlapping_arguments_share_what_is_known_of_their_memory() -> None:
    memory = torch.zeros(64 + 8, dtype=torch.int32)
    found = faults(two_names[(2,)], memory[:64], memory[8:], B=64)
    assert {fault.kind for fault in found} == {FaultKind.RACE}


@triton.jit
def two_names(a, b, B: tl.constexpr):
    lane = tl.arange(0, B)
    if tl.program_id(0) == 0:
        tl.store(a + lane, lane)
    else:
        tl.store(b + lane, lane)


@triton.jit
def halves(out, B: tl.constexpr, SAME: tl.constexpr):
    lane = tl.arange(0, B)
    tl.store(out + lane // 2, lane // 2 if SAME else lane)


def test_lanes_of_a_store_conflict_only_if_their_values_differ() -> None:
    out = torch.zeros(64, dtype=torch.int32)
    assert faults(halves[(1,)], out, B=128, SAME=True) == ()
    (fault,) = faults(halves[(1,)], out, B=128, SAME=False)
    assert (fault.kind, fault.lane, fault.index) == (FaultKind.CONFLICT, (1,), (0,))


@triton.jit
def total(x, part, count, out, n, B: tl.constexpr, SEM: tl.constexpr):
    me = tl.program_id(0)
    index = me * B + tl.arange(0, B)
    tl.store(part + me, tl.sum(tl.load(x + index, mask=index < n, other=0.0)))
    if tl.atomic_add(count, 1, sem=SEM) == tl.num_programs(0) - 1:
        all_parts = tl.arange(0, 16)
        value = tl.load(part + all_parts, mask=all_parts < tl.num_programs(0), other=0.0)  # last arriver
        tl.store(out, tl.sum(value))


@pytest.mark.parametrize("schedule", list(Schedule))
def test_the_last_to_arrive_may_read_what_the_counter_ordered(
    monkeypatch: pytest.MonkeyPatch, schedule: Schedule
) -> None:
    monkeypatch.setenv("KERNELSMITH_CPU_SCHEDULE", schedule.value)
    x, out = torch.rand(1000), torch.empty(1)
    memory = [torch.empty(10), torch.zeros(1, dtype=torch.int32), out]
    assert faults(total[(10,)], x, *memory, 1000, B=128, SEM="acq_rel") == ()
    assert torch.allclose(out, x.sum())


def test_a_relaxed_counter_orders_nothing() -> None:
    memory = [torch.empty(10), torch.zeros(1, dtype=torch.int32), torch.empty(1)]
    (fault,) = faults(total[(10,)], torch.rand(1000), *memory, 1000, B=128, SEM="relaxed")
    assert (fault.kind, fault.tensor) == (FaultKind.RACE, "part")
    assert fault.location == f"{__file__}:{line_of('last arriver')}"


@triton.jit
def under_a_lock(lock, count, B: tl.constexpr, LOCK: tl.constexpr):
    index = tl.arange(0, B)
    if LOCK:
        while tl.atomic_cas(lock, 0, 1) == 1:
            pass
    tl.store(count + index, tl.load(count + index) + index)
    tl.debug_barrier()
    if LOCK:
        tl.atomic_xchg(lock, 0)


def test_a_lock_orders_what_it_protects() -> None:
    count = torch.zeros(16)
    assert faults(under_a_lock[(100,)], torch.zeros(1, dtype=torch.int32), count, B=16, LOCK=True) == ()
    assert torch.equal(count, 100.0 * torch.arange(16))
    found = faults(under_a_lock[(100,)], torch.zeros(1, dtype=torch.int32), count, B=16, LOCK=False)
    assert {fault.kind for fault in found} == {FaultKind.RACE}


@triton.jit
def initialise_and_add(out, B: tl.constexpr):
    if tl.program_id(0) == 0:
        tl.store(out, 0)
    tl.atomic_add(out, 1)


def test_an_initialisation_that_atomics_may_overtake_is_a_race() -> None:
    (fault,) = faults(initialise_and_add[(8,)], torch.zeros(1, dtype=torch.int32), B=8)
    assert fault.kind is FaultKind.RACE


@triton.jit
def wait_for_next(flag, n):
    me = tl.program_id(0)
    if me < n - 1:
        while tl.atomic_add(flag + me + 1, 0) == 0:  # waits
            pass
    tl.atomic_xchg(flag + me, 1)


def test_a_wait_for_a_program_that_comes_later_is_a_deadlock_in_that_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_CPU_SCHEDULE", "reversed")
    assert faults(wait_for_next[(3,)], torch.zeros(3, dtype=torch.int32), 3) == ()
    monkeypatch.setenv("KERNELSMITH_CPU_SCHEDULE", "deferred")
    (fault,) = faults(wait_for_next[(3,)], torch.zeros(3, dtype=torch.int32), 3)
    assert (fault.kind, fault.program) == (FaultKind.DEADLOCK, (0, 0, 0))
    assert fault.location == f"{__file__}:{line_of('waits')}"


@triton.jit
def meet_and_work(arrived, x, out, n, rounds):
    me = tl.program_id(0)
    tl.atomic_add(arrived, 1)
    while tl.atomic_add(arrived, 0) < n:
        pass
    total = 0.0
    for _ in range(rounds * me):
        total += tl.load(x)
    tl.store(out + me, total)
    tl.atomic_add(arrived, 1)
    while tl.atomic_add(arrived, 0) < 2 * n:
        pass


def test_a_program_that_works_while_the_others_wait_is_no_deadlock() -> None:
    arrived, out = torch.zeros(1, dtype=torch.int32), torch.zeros(2)
    # 4e8 additions take well over the half second after which a wait for nobody is called a deadlock
    assert faults(meet_and_work[(2,)], arrived, torch.ones(1), out, 2, 400_000_000) == ()


@triton.jit
def copy_rows(x, out, n, B: tl.constexpr):
    me = tl.program_id(0)
    lane = tl.arange(0, B)
    previous = tl.load(out + (me - 1) * n + lane, mask=(lane < n) & (me > 0), other=0)  # what the row before holds
    tl.store(out + me * n + lane, tl.load(x + lane, mask=lane < n, other=0) + previous, mask=lane < n)


def test_deferred_stores_are_not_seen_by_later_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_CPU_SCHEDULE", "deferred")
    out = torch.zeros(4, 64)
    assert {fault.kind for fault in faults(copy_rows[(4,)], torch.ones(64), out, 64, B=64)} == {FaultKind.RACE}
    assert torch.equal(out, torch.ones(4, 64))


@triton.jit
def rows(x, out, n, B: tl.constexpr, HOW: tl.constexpr):
    row, lane = tl.program_id(0), tl.arange(0, B)
    value = tl.load(x + row * n + lane, mask=lane < n)  # no other
    if HOW == "sum":
        tl.store(out + row, tl.sum(value, 0))
    elif HOW == "max":
        tl.store(out + row, tl.max(value, 0))
    elif HOW == "any":
        tl.store(out + row, tl.max((value > 2).to(tl.int32), 0))
    else:
        tl.store(out + row, tl.sum(tl.where(lane < n, value, 0), 0))


@pytest.mark.parametrize("how", ["sum", "max", "any"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int8], ids=str)
def test_a_result_that_depends_on_masked_off_lanes_is_found(how: str, dtype: torch.dtype) -> None:
    out = torch.zeros(4, dtype=torch.int32 if how == "any" or dtype == torch.int8 else dtype)
    (fault,) = faults(rows[(4,)], torch.ones(4, 100, dtype=dtype), out, 100, B=128, HOW=how)
    assert (fault.kind, fault.tensor, fault.index, fault.program) == (FaultKind.POISON, "out", (0,), (0, 0, 0))
    assert fault.location == f"{__file__}:{line_of('no other')}"
    assert out[0] == {"sum": 100, "max": 1, "any": 0}[how]


def test_masked_off_lanes_that_nothing_depends_on_are_no_fault() -> None:
    out = torch.zeros(4)
    assert faults(rows[(4,)], torch.ones(4, 100), out, 100, B=128, HOW="where") == ()
    assert faults(rows[(4,)], torch.ones(4, 128), out, 128, B=128, HOW="sum") == ()


@triton.jit
def decide(x, y, out, n, B: tl.constexpr):
    lane = tl.arange(0, B)
    chosen = tl.load(x + lane, mask=lane < n) > 0  # decides
    tl.store(out + lane, tl.load(y + lane, mask=lane < n), mask=chosen)


def test_only_the_load_that_the_result_depends_on_is_blamed() -> None:
    (fault,) = faults(decide[(1,)], torch.ones(8), torch.ones(8), torch.full((16,), 5.0), 8, B=16)
    assert (fault.kind, fault.location) == (FaultKind.POISON, f"{__file__}:{line_of('decides')}")


@triton.jit
def strided(x, out, index, stride, B: tl.constexpr):
    row = tl.load(index + tl.program_id(0))
    offset = tl.mul(row, stride, sanitize_overflow=False)
    tl.store(out + tl.program_id(0) * B + tl.arange(0, B), tl.load(x + offset + tl.arange(0, B)))


def test_a_wrapped_32_bit_offset_is_reported_with_both_values() -> None:
    x, out = torch.rand(64), torch.empty(16)
    assert faults(strided[(1,)], x, out, torch.tensor([2], dtype=torch.int32), 10, B=16) == ()
    wrap, *_ = faults(strided[(1,)], x, out, torch.tensor([5], dtype=torch.int32), 2**30, B=16)
    assert wrap.kind is FaultKind.OFFSET_WRAP
    assert str(5 * 2**30) in wrap.detail and str(2**30) in wrap.detail


@triton.jit
def load_from(x, index):
    return tl.load(x + index)  # in a helper


@triton.jit
def with_a_helper(x, out, B: tl.constexpr):
    lane = tl.arange(0, B)
    tl.store(out + lane, tl.sort(load_from(x, lane + 1)))


def test_a_fault_in_a_helper_is_reported_there() -> None:
    (fault,) = faults(with_a_helper[(1,)], torch.rand(16), torch.rand(16), B=16)
    assert fault.location == f"{__file__}:{line_of('in a helper')}"


@triton.jit
def divide(x, y, out, n, B: tl.constexpr):
    index = tl.arange(0, B)
    quotient = tl.load(x + index) // tl.load(y + index)
    tl.store(out + index, quotient, mask=index < n)
    tl.store(out + n, n // (n - tl.load(y)))


def test_division_by_zero_counts_where_the_result_uses_it() -> None:
    x, out = torch.arange(16, dtype=torch.int32), torch.zeros(16, dtype=torch.int32)
    y = torch.tensor([1] * 8 + [0] * 8, dtype=torch.int32)
    assert faults(divide[(1,)], x, y, out, 8, B=16) == ()
    assert [fault.kind for fault in faults(divide[(1,)], x, y, out, 9, B=16)] == [FaultKind.POISON]
    y[0] = 8
    assert [fault.kind for fault in faults(divide[(1,)], x, y, out, 8, B=16)] == [FaultKind.DIVISION_BY_ZERO]


@triton.jit(debug=True)
def asserting(x, B: tl.constexpr):
    tl.device_assert(tl.load(x + tl.arange(0, B)) > 0, "must be positive")


@pytest.mark.parametrize("checked", ["0", "1"])
def test_an_assertion_reaches_python_from_any_build(monkeypatch: pytest.MonkeyPatch, checked: str) -> None:
    monkeypatch.setenv("KERNELSMITH_CPU_CHECKED", checked)
    x = torch.ones(32)
    asserting.device_caches.clear()
    assert faults(asserting[(2,)], x, B=32) == ()
    x[17] = -1
    (fault,) = faults(asserting[(2,)], x, B=32)
    assert (fault.kind, fault.lane, fault.count) == (FaultKind.ASSERTION, (17,), 2)
    assert "must be positive" in str(fault)


def test_an_unknown_order_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELSMITH_CPU_SCHEDULE", "backwards")
    with pytest.raises(UsageError, match="backwards"):
        faults(add[(1,)], torch.rand(8), torch.rand(8), torch.rand(8), 8, B=128, MASKED=True)


def test_a_replay_knows_what_was_written() -> None:
    x, y, out = torch.rand(256), torch.rand(256), torch.zeros(256)
    compiled = add.warmup(x, y, out, 256, B=128, MASKED=True, grid=(2,))
    kernel = compile_ttir(compiled.asm["ttir"], checked=True)
    tensors = (x, y, out)
    segments = [monitor.Segment(t.data_ptr(), 4, (256,), (1,), name) for t, name in zip(tensors, "xyz", strict=True)]
    memory = monitor.Memory(assume_written=False)
    for segment in segments:
        memory.declare(segment.address, segment.nbytes, written=False)
    memory.mark_written(segments[0])
    memory.mark_written(monitor.Segment(segments[1].address, 4, (128,), (1,)))
    slots = [*(segment.address for segment in segments), 256]
    (fault,) = monitor.run_checked(kernel, (2, 1, 1), slots, [*segments, None], memory)
    assert (fault.kind, fault.tensor, fault.index, fault.count) == (FaultKind.UNWRITTEN, "y", (128,), 128)
    # What the launch wrote may be read by the next one.
    again = [segments[0], segments[2], segments[0], None]
    slots = [segments[0].address, segments[2].address, segments[0].address, 256]
    assert monitor.run_checked(kernel, (2, 1, 1), slots, again, memory) == ()


@triton.jit
def bounded(out, start, n, B: tl.constexpr):
    o = tl.add(start, tl.arange(0, B), sanitize_overflow=False)
    tl.store(out + tl.arange(0, B), 1.0, mask=o < n)


def test_a_mask_whose_indices_wrap_within_a_row_is_reported() -> None:
    out, most = torch.zeros(64), 2**31 - 1
    assert faults(bounded[(1,)], out, most - 63, most, B=64) == ()
    (fault,) = faults(bounded[(1,)], out, most - 7, most, B=64)
    assert fault.kind is FaultKind.OFFSET_WRAP
    assert str(most + 56) in fault.detail


@triton.jit
def doubled(x, out, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(out + o, tl.load(x + o // 128, mask=o < n), mask=o < n)


@pytest.mark.parametrize("divisor_in_row", [False, True])
def test_an_element_that_a_row_shares_is_loaded_only_where_a_lane_wants_it(divisor_in_row: bool) -> None:
    block = 256 if divisor_in_row else 64
    for n in (300, 512):
        x, out = torch.arange(float(-(-n // 128))), torch.zeros(n)
        assert faults(doubled[(8 * 256 // block,)], x, out, n, B=block) == ()
        assert torch.equal(out, x.repeat_interleave(128)[:n])
    (fault,) = faults(doubled[(2 * 256 // block,)], x[:3], out, 512, B=block)
    assert fault.kind is FaultKind.OUT_OF_BOUNDS


@triton.jit
def picked(x, where, out, B: tl.constexpr, SAME: tl.constexpr):
    o = tl.arange(0, B)
    index = tl.load(where) + 0 * o if SAME else tl.load(where + o)
    value = tl.gather(tl.load(x + o) * 2, index, 0)  # gather
    tl.store(out + o, value)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64], ids=str)
def test_an_index_of_a_gather_outside_of_its_axis_is_reported(dtype: torch.dtype) -> None:
    x, out, where = torch.rand(64), torch.empty(64), torch.arange(63, -1, -1, dtype=dtype)
    assert faults(picked[(1,)], x, where, out, B=64, SAME=False) == ()
    where[21], where[40] = -1, 64
    (fault,) = faults(picked[(1,)], x, where, out, B=64, SAME=False)
    assert (fault.kind, fault.lane, fault.count) == (FaultKind.OUT_OF_BOUNDS, (21,), 2)
    assert fault.detail == "index -1 of an axis of 64"
    assert fault.location is not None and fault.location.endswith(f":{line_of('gather')}")


def test_one_index_for_all_lanes_of_a_gather_is_checked_too() -> None:
    x, out, where = torch.rand(64), torch.empty(64), torch.full((64,), 70)
    (fault,) = faults(picked[(1,)], x, where, out, B=64, SAME=True)
    assert (fault.kind, fault.detail) == (FaultKind.OUT_OF_BOUNDS, "index 70 of an axis of 64")
