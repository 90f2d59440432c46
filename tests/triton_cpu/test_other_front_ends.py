"""TTIR as triton-ascend 3.2.0 prints it, recorded: blocks of any size, and loads whose masked lanes hold anything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from kernelsmith.faults import Fault, FaultKind
from kernelsmith.triton_cpu.run.launch import compile_ttir
from kernelsmith.triton_cpu.watch.monitor import Memory, Segment, run_checked

Array = npt.NDArray[np.float32]
ROW_SUM = """
#loc = loc("k.py":6:0)
#loc1 = loc(unknown)
module {
  tt.func public @row_sum(%arg0: !tt.ptr<f32> loc("k.py":6:0), %arg1: !tt.ptr<f32> loc("k.py":6:0), %arg2: i32 loc("k.py":6:0)) attributes {noinline = false} {
    %cst = arith.constant dense<0.000000e+00> : tensor<96xf32> loc(#loc1)
    %0 = tt.get_program_id x : i32 loc(#loc2)
    %1 = tt.make_range {end = 96 : i32, start = 0 : i32} : tensor<96xi32> loc(#loc3)
    %2 = arith.muli %0, %arg2 : i32 loc(#loc4)
    %3 = tt.addptr %arg0, %2 : !tt.ptr<f32>, i32 loc(#loc4)
    %4 = tt.splat %3 : !tt.ptr<f32> -> tensor<96x!tt.ptr<f32>> loc(#loc4)
    %5 = tt.addptr %4, %1 : tensor<96x!tt.ptr<f32>>, tensor<96xi32> loc(#loc4)
    %6 = tt.splat %arg2 : i32 -> tensor<96xi32> loc(#loc4)
    %7 = arith.cmpi slt, %1, %6 : tensor<96xi32> loc(#loc4)
    %8 = tt.load %5, %7 : tensor<96x!tt.ptr<f32>> loc(#loc4)
    %9 = arith.select %7, %8, %cst : tensor<96xi1>, tensor<96xf32> loc(#loc4)
    %10 = "tt.reduce"(KEPT) <{axis = 0 : i32}> ({
    ^bb0(%arg3: f32 loc(callsite(#loc1 at #loc5)), %arg4: f32 loc(callsite(#loc1 at #loc5))):
      %12 = arith.addf %arg3, %arg4 : f32 loc(#loc6)
      tt.reduce.return %12 : f32 loc(#loc5)
    }) : (tensor<96xf32>) -> f32 loc(#loc5)
    %11 = tt.addptr %arg1, %0 : !tt.ptr<f32>, i32 loc(#loc5)
    tt.store %11, %10 : !tt.ptr<f32> loc(#loc5)
    tt.return loc(#loc1)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("k.py":7:24)
#loc3 = loc("k.py":8:21)
#loc4 = loc("k.py":9:16)
#loc5 = loc("k.py":10:20)
#loc6 = loc("standard.py":267:36)
"""  # noqa: E501


def test_a_block_of_96() -> None:
    x, y = np.arange(240, dtype=np.float32), np.zeros(3, dtype=np.float32)
    kernel = compile_ttir(ROW_SUM.replace("KEPT", "%9"))
    kernel.launch((3, 1, 1), [x.ctypes.data, y.ctypes.data, 80])
    assert y.tolist() == x.reshape(3, 80).sum(1).tolist()


@pytest.mark.parametrize(("summed", "wrong"), [("%9", []), ("%8", [(FaultKind.POISON, "k.py:9")])])
def test_what_depends_on_lanes_that_nobody_cares_for_is_found(summed: str, wrong: list[tuple[FaultKind, str]]) -> None:
    x, y = np.arange(240, dtype=np.float32), np.zeros(3, dtype=np.float32)
    faults = checked(ROW_SUM.replace("KEPT", summed), x, y)
    assert [(fault.kind, fault.location) for fault in faults] == wrong
    assert bool(wrong) or y.tolist() == x.reshape(3, 80).sum(1).tolist()


def checked(ttir: str, x: Array, y: Array) -> tuple[Fault, ...]:
    segments = [Segment(array.ctypes.data, 4, array.shape, (1,)) for array in (x, y)]
    memory = Memory(assume_written=False)
    for segment, written in zip(segments, (True, False), strict=True):
        memory.declare(segment.address, segment.nbytes, written=written)
    slots = [*(segment.address for segment in segments), 80]
    return run_checked(compile_ttir(ttir, checked=True), (3, 1, 1), slots, [*segments, None], memory)
