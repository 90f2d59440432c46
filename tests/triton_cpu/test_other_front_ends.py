"""TTIR as triton-ascend 3.2.0 prints it, recorded: blocks of any size, and loads whose masked lanes hold anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from kernelsmith.faults import Fault, FaultKind
from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct
from kernelsmith.triton_cpu.isa import BASELINE, host_isa
from kernelsmith.triton_cpu.run.launch import compile_ttir
from kernelsmith.triton_cpu.watch.monitor import Memory, Segment, run_checked

FOLDER = Path(__file__).parents[1] / "data" / "ascend"
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


def test_operations_of_its_own() -> None:
    x, y = torch.randn(96), torch.empty(6, 96)
    x[5], x[7] = float("inf"), float("nan")
    text = (FOLDER / "own_operations.ttir").read_text()
    compile_ttir(text).launch((1, 1, 1), [x.data_ptr(), y.data_ptr()])
    rows = x.view(8, 12)
    parts = [x.fmod(3), x.flip(0), rows.flip(0).flatten(), rows.flip(1).flatten(), x.relu() + 1 / x]
    torch.testing.assert_close(y, torch.stack([*parts, x.half().tanh().float()]), equal_nan=True)


def test_a_flip_along_an_axis_that_is_not_there() -> None:
    text = (FOLDER / "own_operations.ttir").read_text()
    with pytest.raises(TtirError, match=r"tt\.flip of tensor<96xf32> along 1 cannot give"):
        compile_ttir(text.replace("tt.flip %3, 0", "tt.flip %3, 1"))
    with pytest.raises(UnsupportedConstruct, match="no dtype of it is supported on Ascend"):
        compile_ttir(text.replace("tt.flip %3, 0", "tt.sort %3, 0, true"))


@pytest.mark.parametrize("baseline", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_products_of_other_sizes_than_powers_of_two(dtype: torch.dtype, baseline: bool) -> None:
    a, b = (torch.randn(48, 80) * 3).to(dtype), (torch.randn(80, 112) * 3).to(dtype)
    c = torch.empty(50, 112, dtype=torch.int32 if dtype is torch.int8 else torch.float32).fill_(7)
    text = (FOLDER / f"product_{str(dtype).removeprefix('torch.')}.ttir").read_text()
    compile_ttir(text, isa=BASELINE if baseline else host_isa()).launch((1, 1, 1), [t.data_ptr() for t in (a, b, c)])
    torch.testing.assert_close(c[:48].float(), a.float() @ b.float(), rtol=1e-4, atol=1e-3)
    assert (c[48:] == 7).all()
