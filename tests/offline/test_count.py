"""Counting: whole transactions, what programs share, operations by unit, and what cannot be known."""

from __future__ import annotations

import pytest

from kernelsmith.estimate import Unit, Work
from kernelsmith.offline.count import BUFFER_BITS, count
from kernelsmith.offline.wire import Count, Counted, Launched
from kernelsmith.plan import Kernel
from kernelsmith.triton_cpu.errors import TtirError

COPY = """
module {
  tt.func public @copy(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32, %step: i32) {
    %block = arith.constant 128 : i32
    %pid = tt.get_program_id x : i32
    %first = arith.muli %pid, %block : i32
    %lanes = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32>
    %firsts = tt.splat %first : i32 -> tensor<128xi32>
    %at = arith.addi %firsts, %lanes : tensor<128xi32>
    %ns = tt.splat %n : i32 -> tensor<128xi32>
    %mask = arith.cmpi slt, %at, %ns : tensor<128xi32>
    %steps = tt.splat %step : i32 -> tensor<128xi32>
    %far = arith.muli %at, %steps : tensor<128xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %px = tt.addptr %xs, %far : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    %v = tt.load %px, %mask : tensor<128x!tt.ptr<f32>>
    %e = math.exp %v : tensor<128xf32>
    %ys = tt.splat %y : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>>
    %py = tt.addptr %ys, %at : tensor<128x!tt.ptr<f32>>, tensor<128xi32>
    tt.store %py, %e, %mask : tensor<128x!tt.ptr<f32>>
    tt.return
  }
}
"""
SHARED = """
module {
  tt.func public @shared(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %lanes = tt.make_range {end = 256 : i32, start = 0 : i32} : tensor<256xi32>
    %xs = tt.splat %x : !tt.ptr<f32> -> tensor<256x!tt.ptr<f32>>
    %px = tt.addptr %xs, %lanes : tensor<256x!tt.ptr<f32>>, tensor<256xi32>
    scf.for %i = %zero to %n step %one  : i32 {
      %v = tt.load %px : tensor<256x!tt.ptr<f32>>
      %w = arith.mulf %v, %v : tensor<256xf32>
    }
    tt.return
  }
}
"""
LOADED_BOUND = """
module {
  tt.func public @loaded(%x: !tt.ptr<i32>) {
    %zero = arith.constant 0 : i32
    %one = arith.constant 1 : i32
    %n = tt.load %x : !tt.ptr<i32>
    scf.for %i = %zero to %n step %one  : i32 {
      %v = tt.load %x : !tt.ptr<i32>
    }
    tt.return
  }
}
"""


def counted(
    ttir: str,
    grid: tuple[int, int, int],
    *arguments: int | None,
    sizes: dict[int, int],
    entries: tuple[int, ...] | None = None,
) -> Counted:
    kernel = Kernel(name="k", ttir=ttir, signature=("i32",) * len(arguments))
    launched = Launched(grid=grid, arguments=arguments, entries=entries)
    return count(Count(kernel=kernel, launches=(launched,), buffers=sizes, transaction_bytes=32))


def copied(n: int, step: int) -> Work:
    sizes = {1: 4 * n * step, 2: 4 * n}
    return counted(COPY, (-(-n // 128), 1, 1), 1 << BUFFER_BITS, 2 << BUFFER_BITS, n, step, sizes=sizes).work


def test_a_copy_moves_each_element_once() -> None:
    work = copied(128 * 1000, 1)
    assert (work.read_bytes, work.written_bytes) == (512_000, 512_000)
    assert work.distinct_bytes == work.asked_bytes == 1_024_000
    assert work.operations[Unit.SPECIAL] == 128_000
    assert work.again_bytes == 0
    assert work.programs == 1000


def test_masked_lanes_move_nothing() -> None:
    assert copied(130, 1).asked_bytes == 2 * 4 * 130


def test_a_stride_moves_whole_transactions() -> None:
    work = copied(1280, 8)
    assert work.read_bytes == 32 * 1280, "one transaction for each element of 4 bytes"
    assert work.written_bytes == 4 * 1280


def test_what_all_programs_read_is_distinct_once() -> None:
    work = counted(SHARED, (500, 1, 1), 1 << BUFFER_BITS, 2 << BUFFER_BITS, 3, sizes={1: 1024, 2: 1024}).work
    assert work.read_bytes == 500 * 3 * 1024
    assert work.distinct_bytes == 1024
    assert work.again_bytes == 500 * 2 * 1024, "the second and third time round, by the same program"
    assert work.operations[Unit.VECTOR_32] == 500 * 3 * 256
    assert work.issues[Unit.VECTOR_32] == work.rounds == 500 * 3


def test_a_loaded_bound_is_said_to_be_assumed() -> None:
    found = counted(LOADED_BOUND, (1, 1, 1), 1 << BUFFER_BITS, sizes={1: 4})
    assert found.assumed == ("a loop whose bounds are loaded goes round once",)


def test_blocks_count_as_often_as_they_were_entered() -> None:
    found = counted(LOADED_BOUND, (1, 1, 1), 1 << BUFFER_BITS, sizes={1: 4}, entries=(1, 1000))
    assert (found.work.asked_bytes, found.assumed) == (4 * 1001, ())
    with pytest.raises(ValueError, match="each of its programs began once"):  # a kernel may write where it should not
        counted(LOADED_BOUND, (1, 1, 1), 1 << BUFFER_BITS, sizes={1: 4}, entries=(0, 0))
    with pytest.raises(ValueError, match="zip"):
        counted(LOADED_BOUND, (1, 1, 1), 1 << BUFFER_BITS, sizes={1: 4}, entries=(1,))


def test_what_was_entered_where_nobody_looked_counts_and_is_said() -> None:
    """Of 1,000 programs, one that is not followed copies."""
    hidden = COPY.replace("%block = ", "%here = arith.constant 3 : i32\n    %block = ").replace(
        "%lanes = ", "%mine = arith.cmpi eq, %pid, %here : i32\n    scf.if %mine {\n    %lanes = "
    )
    hidden = hidden.replace("    tt.return", "    }\n    tt.return")
    sizes, arguments = {1: 4 * 128, 2: 4 * 128}, (1 << BUFFER_BITS, 2 << BUFFER_BITS, 10**6, 1)
    found = counted(hidden, (1000, 1, 1), *arguments, sizes=sizes, entries=(1000, 1))
    assert found.work.asked_bytes == 8 * 128
    assert found.work.operations[Unit.SPECIAL] == 128
    assert "no program that was followed" in found.assumed[0]


def test_an_endless_loop_ends() -> None:
    found = counted(SHARED, (4, 1, 1), 1 << BUFFER_BITS, 2 << BUFFER_BITS, 2**31 - 1, sizes={1: 1024, 2: 1024})
    assert found.work.read_bytes > 0
    assert any("too long" in text for text in found.assumed)
    empty = SHARED.replace("      %v = tt.load %px", "    }\n    scf.if %pred {\n      %v = tt.load %px").replace(
        "    scf.for", "    %pred = arith.cmpi eq, %n, %zero : i32\n    scf.for"
    )
    assert any("too long" in text for text in counted(empty, (4, 1, 1), 1, 2, 2**31 - 1, sizes={}).assumed)


def test_nonsense_is_refused() -> None:
    with pytest.raises(TtirError):
        counted("module { tt.func", (1, 1, 1), sizes={})
