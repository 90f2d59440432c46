"""Calls, branches between blocks, and loops that carry tuples."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu.errors import TtirError, UnsupportedConstruct
from kernelsmith.triton_cpu.run import launch


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))


@triton.jit(noinline=True)
def scaled_row(p, n, B: tl.constexpr):
    index = tl.arange(0, B)
    v = tl.load(p + index, mask=index < n, other=0.0)
    if n > 4:
        return v, n
    tl.store(p + index, v * 2, mask=index < n)
    return v + 1, n + 1


@triton.jit
def many_returns(x, out, n, B: tl.constexpr):
    index = tl.arange(0, B)
    row, size = scaled_row(x + tl.program_id(0) * B, n, B)
    if size == 5:
        if tl.program_id(0) == 1:
            return
        if tl.program_id(0) == 2:
            tl.store(out + 2 * B, 7.0)
            return
        row += 10
    tl.store(out + tl.program_id(0) * B + index, row + size)


@pytest.mark.parametrize("n", [4, 6])
def test_a_function_that_returns_tensors_and_returns_in_nested_conditions(n: int) -> None:
    x = torch.arange(32.0).reshape(4, 8)
    before, out = x.clone(), torch.zeros(4, 8)
    many_returns[(4,)](x, out, n, B=8)
    inside = torch.arange(8) < n
    row = torch.where(inside, before, torch.zeros(()))
    if n == 6:
        assert torch.equal(x, before)
        assert torch.equal(out, row + 6)
        return
    assert torch.equal(x, torch.where(inside, 2 * before, before))
    expected = row + 1 + 10 + 5
    expected[1], expected[2] = 0, 0
    expected[2, 0] = 7
    assert torch.equal(out, expected)


class Pair(NamedTuple):
    left: tl.tensor
    right: tl.tensor


@triton.jit
def tuples(arguments, out, n, B: tl.constexpr):
    index = tl.arange(0, B)
    state = Pair(tl.load(arguments.left + index), tl.load(arguments.right[0] + index))
    turn = 0
    while turn < n:
        for _ in range(arguments.right[1]):
            state = Pair(state.right, state.left + state.right)
        turn += 1
        if turn == 2:  # noqa: SIM108 - a condition that yields pointers
            p = out
        else:
            p = out + B
        tl.store(p + index, state.left)
    tl.store(out + 2 * B + index, state.right)


def test_named_tuples_through_nested_loops_and_pointers_out_of_conditions() -> None:
    a, b, out = torch.arange(16.0), torch.ones(16), torch.zeros(3, 16)
    tuples[(1,)](Pair(a, (b, 2, None)), out, 3, B=16)
    lefts = []
    left, right = a, b
    for _ in range(3):
        for _ in range(2):
            left, right = right, left + right
        lefts.append(left)
    assert torch.equal(out, torch.stack([lefts[1], lefts[2], right]))


@triton.jit
def from_a_table(table, out, B: tl.constexpr):
    rows = tl.load(table + tl.arange(0, 4)).to(tl.pointer_type(tl.float32))
    tl.store(out + tl.arange(0, 4), tl.load(rows + 1))
    row = tl.load(table + 2).to(tl.pointer_type(tl.float32))
    tl.store(out + 4 + tl.arange(0, B), tl.load(row + tl.arange(0, B)))
    tl.store(table, row.to(tl.int64, bitcast=True) - tl.load(table + 2))


def test_tables_of_pointers() -> None:
    rows = [torch.arange(8.0) + 10 * i for i in range(4)]
    table = torch.tensor([row.data_ptr() for row in rows])
    out = torch.zeros(12)
    from_a_table[(1,)](table, out, B=8)
    assert out.tolist() == [1, 11, 21, 31, *rows[2].tolist()]
    assert table[0] == 0


# What front ends before Triton 3.9 make of a pointer to pointers.
TABLE = """
module {
  tt.func public @table(%t: !tt.ptr<!tt.ptr<f32>>, %out: !tt.ptr<f32>) {
    %c1 = arith.constant 1 : i32
    %lane = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
    %ts = tt.splat %t : !tt.ptr<!tt.ptr<f32>> -> tensor<2x!tt.ptr<!tt.ptr<f32>>>
    %tp = tt.addptr %ts, %lane : tensor<2x!tt.ptr<!tt.ptr<f32>>>, tensor<2xi32>
    %rows = tt.load %tp : tensor<2x!tt.ptr<!tt.ptr<f32>>>
    %at = tt.addptr %rows, %lane : tensor<2x!tt.ptr<f32>>, tensor<2xi32>
    %v = tt.load %at : tensor<2x!tt.ptr<f32>>
    %os = tt.splat %out : !tt.ptr<f32> -> tensor<2x!tt.ptr<f32>>
    %op = tt.addptr %os, %lane : tensor<2x!tt.ptr<f32>>, tensor<2xi32>
    tt.store %op, %v : tensor<2x!tt.ptr<f32>>
    %second = tt.addptr %t, %c1 : !tt.ptr<!tt.ptr<f32>>, i32
    %row = tt.load %second : !tt.ptr<!tt.ptr<f32>>
    %next = tt.addptr %row, %c1 : !tt.ptr<f32>, i32
    tt.store %second, %next : !tt.ptr<!tt.ptr<f32>>
    tt.return
  }
}
"""


def test_pointers_to_pointers() -> None:
    rows = [np.arange(4, dtype=np.float32) + 10 * i for i in range(2)]
    table, out = np.array([row.ctypes.data for row in rows]), np.zeros(2, dtype=np.float32)
    launch.compile_ttir(TABLE).launch((1, 1, 1), [table.ctypes.data, out.ctypes.data])
    assert out.tolist() == [0, 11]
    assert table.tolist() == [rows[0].ctypes.data, rows[1].ctypes.data + 4]
    deep = TABLE.replace("%t: ", f"%u: {'!tt.ptr<' * 5000}f32{'>' * 5000}, %t: ")
    with pytest.raises(UnsupportedConstruct, match="a pointer to pointers to pointers"):
        launch.compile_ttir(deep)


# A loop made of branches, entered in its middle or at its start, with values that trade places on the way back.
LOOP = """
module {
  tt.func public @loop(%out: !tt.ptr<i32>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %lane = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>
    %zero = arith.constant dense<0> : tensor<8xi32>
    %odd = arith.andi %n, %c1 : i32
    %middle = arith.cmpi ne, %odd, %c0 : i32
    cf.cond_br %middle, ^body(%n, %lane, %zero : i32, tensor<8xi32>, tensor<8xi32>), ^head(%n, %zero, %lane : TRIPLE)
  ^head(%i: i32, %a: tensor<8xi32>, %b: tensor<8xi32>):
    %more = arith.cmpi sgt, %i, %c0 : i32
    cf.cond_br %more, ^body(%i, %a, %b : i32, tensor<8xi32>, tensor<8xi32>), ^end(%b : tensor<8xi32>)
  ^body(%j: i32, %c: tensor<8xi32>, %d: tensor<8xi32>):
    %next = arith.subi %j, %c1 : i32
    %sum = arith.addi %c, %d : tensor<8xi32>
    cf.br ^head(%next, %d, %sum : i32, tensor<8xi32>, tensor<8xi32>)
  ^end(%r: tensor<8xi32>):
    %base = tt.splat %out : !tt.ptr<i32> -> tensor<8x!tt.ptr<i32>>
    %p = tt.addptr %base, %lane : tensor<8x!tt.ptr<i32>>, tensor<8xi32>
    tt.store %p, %r : tensor<8x!tt.ptr<i32>>
    tt.return
  }
}
""".replace("TRIPLE", "i32, tensor<8xi32>, tensor<8xi32>")


@pytest.mark.parametrize("n", [0, 1, 4, 5])
def test_loops_made_of_branches(n: int) -> None:
    out, lane = np.zeros(8, dtype=np.int32), np.arange(8, dtype=np.int32)
    launch.compile_ttir(LOOP).launch((1, 1, 1), [out.ctypes.data, n])
    a, b = (lane, 0 * lane) if n % 2 else (0 * lane, lane)
    for _ in range(n):
        a, b = b, a + b
    assert out.tolist() == b.tolist()


RECURSION = """
#loc1 = loc("kernel.py":7:4)
module {
  tt.func public @k(%p: !tt.ptr<i32>) {
    tt.call @f(%p) : (!tt.ptr<i32>) -> ()
    tt.return
  }
  tt.func private @f(%p: !tt.ptr<i32>) {
    tt.call @f(%p) : (!tt.ptr<i32>) -> () loc(#loc1)
    tt.return
  }
}
"""


def test_recursion_and_bad_branches_are_refused_with_their_place() -> None:
    with pytest.raises(UnsupportedConstruct, match=r"the recursive call of f at kernel\.py:7: .*write a loop"):
        launch.compile_ttir(RECURSION)
    with pytest.raises(TtirError, match=r"no block \^nowhere"):
        launch.compile_ttir(LOOP.replace("cf.br ^head", "cf.br ^nowhere"))


@triton.jit
def sign_of_difference(x, y):
    if x < y:
        return -1
    if x == y:
        return 0
    return 1


@triton.jit
def crossed(a0, a1, b0, b1):
    return a0 + b1, a1 * b0, a0 - b0, a1 + 1


@triton.jit
def mapped(x, y, out, B: tl.constexpr):
    index = tl.arange(0, B)
    a, b = tl.load(x + index), tl.load(y + index)
    tl.store(out + index, tl.map_elementwise(sign_of_difference, a, b))
    first, second = tl.map_elementwise(crossed, a, b, pack=2)
    tl.store(out + B + index, first)
    tl.store(out + 2 * B + index, second)


def test_scalar_functions_of_neighbouring_elements() -> None:
    x, y = torch.arange(32, dtype=torch.int32) % 5, torch.arange(32, dtype=torch.int32) % 3
    out = torch.zeros(3, 16, 2, dtype=torch.int32)
    mapped[(1,)](x, y, out, B=32)
    (a0, a1), (b0, b1) = x.view(-1, 2).T, y.view(-1, 2).T
    assert torch.equal(out[0].flatten(), torch.sign(x - y))
    assert torch.equal(out[1], torch.stack([a0 + b1, a1 * b0], 1))
    assert torch.equal(out[2], torch.stack([a0 - b0, a1 + 1], 1))


@pytest.mark.parametrize(
    ("op", "complaint"),
    [
        ("%a = arith.constant dense<0> : tensor<4xi128>", r"i128 at k\.py:3: no such element type"),
        ("ttng.cluster_wait", r"ttng\.cluster_wait at k\.py:3: it stands for a GPU's hardware"),
        ('%a = tt.elementwise_inline_asm "x" {pure = true} -> i32', r"inline_asm at k\.py:3: inline PTX .* constexpr"),
        ("%a = math.frobnicate %x : f32", r"frobnicate of f32 at k\.py:3: no such function"),
    ],
)
def test_what_cannot_be_compiled_is_named_with_its_line(op: str, complaint: str) -> None:
    lines = [
        '#loc1 = loc("k.py":3:4)',
        "module {",
        "tt.func public @k(%x: f32) {",
        f"{op} loc(#loc1)",
        "tt.return",
        "}",
        "}",
    ]
    with pytest.raises(UnsupportedConstruct, match=complaint):
        launch.compile_ttir("\n".join(lines))
