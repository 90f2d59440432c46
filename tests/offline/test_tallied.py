"""Counters in every block of a kernel's control flow, by text alone."""

from __future__ import annotations

import pytest

from kernelsmith.offline.tallied import blocks, instrumented, tallied
from kernelsmith.plan import (
    Copy,
    InputBuffer,
    Kernel,
    Launch,
    LaunchPlan,
    PointerArgument,
    ScalarArgument,
    ScratchBuffer,
    View,
)
from kernelsmith.triton_cpu.read.parse import parse

TTIR = """
module {
  tt.func public @kernel(%x: !tt.ptr<f32> loc("x"(#loc)), %n: i32 loc("n"(#loc))) attributes {noinline = false} {
    %zero = arith.constant 0 : i32 loc(#loc)
    %one = arith.constant 1 : i32 loc(#loc)
    %pid = tt.get_program_id x : i32 loc(#loc)
    %late = arith.cmpi sgt, %pid, %n : i32 loc(#loc)
    cf.cond_br %late, ^bb1, ^bb2 loc(#loc)
  ^bb1:  // pred: ^bb0
    tt.return loc(#loc)
  ^bb2:  // pred: ^bb0
    %i = scf.while (%a = %zero) : (i32) -> i32 {
      %more = arith.cmpi slt, %a, %n : i32 loc(#loc)
      scf.condition(%more) %a : i32 loc(#loc)
    } do {
    ^bb0(%a: i32 loc("a")):
      %odd = arith.cmpi eq, %a, %one : i32 loc(#loc)
      %b = scf.if %odd -> (i32) {
        %two = arith.addi %a, %one : i32 loc(#loc)
        scf.yield %two : i32 loc(#loc)
      } else {
        %v = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32> loc(#loc)
        %sum = "tt.reduce"(%v) <{axis = 0 : i32}> ({
        ^bb0(%c: i32 loc(unknown), %d: i32 loc(unknown)):
          %e = arith.addi %c, %d : i32 loc(#loc)
          tt.reduce.return %e : i32 loc(#loc)
        }) : (tensor<4xi32>) -> i32 loc(#loc)
        scf.yield %sum : i32 loc(#loc)
      } loc(#loc)
      %next = arith.addi %b, %one : i32 loc(#loc)
      scf.yield %next : i32 loc(#loc)
    } loc(#loc)
    %t = tt.call @helper() : () -> i32 loc(#loc)
    %u = tt.call @other(%t) : (i32) -> i32 loc(#loc)
    tt.return loc(#loc)
  } loc(#loc)
  tt.func private @helper() -> i32 attributes {noinline = true} {
    %one = arith.constant 1 : i32 loc(#loc)
    tt.return %one : i32 loc(#loc)
  } loc(#loc)
  tt.func private @other(%t: i32 loc("t")) -> i32 attributes {noinline = true} {
    scf.for %i = %t to %t step %t  : i32 {
    } {tt.num_stages = 2 : i32} loc(#loc)
    tt.return %t : i32 loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc("k.py":1:0)
"""


def view(buffer: int) -> View:
    return View(buffer=buffer, dtype="float32", shape=(4,), strides=(1,))


def test_each_block_of_control_flow_has_a_counter_in_textual_order() -> None:
    text, number = instrumented(TTIR)
    found = list(blocks(parse(text)))
    assert number == len(found) == len(list(blocks(parse(TTIR)))) == 9
    for position, block in enumerate(found):
        assert block.ops[0].attributes["value"].bits == (position,)
        assert block.ops[4].name == "tt.atomic_rmw"
    assert text.count("tt.reduce.return") == 1


def test_each_launch_has_a_row_of_its_own_and_the_counters_are_all_that_comes_back() -> None:
    kernel = Kernel(name="kernel", ttir=TTIR, signature=("*fp32", "i32"))
    launch = Launch(kernel=0, grid=(2, 1, 1), arguments=(PointerArgument(view=view(0)), ScalarArgument(value=3)))
    buffers = (InputBuffer(index=0, nbytes=16), InputBuffer(index=1, nbytes=16))
    copied = Copy(out=view(1), source=view(0))
    plan = LaunchPlan(buffers=buffers, kernels=(kernel,), steps=(launch, copied, launch), outputs=(view(1),))
    told = tallied(plan)
    assert told.lengths == (9, 9)
    (row,) = told.plan.outputs
    assert (row.shape, row.dtype, told.plan.buffers[row.buffer].nbytes) == ((18,), "int64", 144)
    _, first, kept, second = told.plan.steps
    assert kept == copied
    for step, offset in ((first, 0), (second, 9)):
        assert isinstance(step, Launch)
        assert step.arguments[0] == PointerArgument(view=row.model_copy(update={"shape": (9,), "offset": offset}))
        assert step.arguments[1:] == launch.arguments
    assert told.plan.kernels[0].signature == ("*i64", "*fp32", "i32")


def test_a_plan_without_room_is_refused() -> None:
    plan = LaunchPlan(buffers=(ScratchBuffer(nbytes=16),) * 4096, kernels=(), steps=(), outputs=())
    with pytest.raises(ValueError, match="4096"):
        tallied(plan)
