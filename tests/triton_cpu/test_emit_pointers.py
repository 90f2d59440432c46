"""Pointers as values: made from integers, chosen lane by lane, to constant memory, out of a tensor of one element."""

from __future__ import annotations

import numpy as np

from kernelsmith.triton_cpu.run import launch

CHOOSE = """
module {
  tt.func public @choose(%x: !tt.ptr<i64, "constant">, %out: !tt.ptr<i64>) {
    %lane = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %half = arith.constant dense<32> : tensor<64xi32>
    %first = arith.cmpi slt, %lane, %half : tensor<64xi32>
    %xs = tt.splat %x : !tt.ptr<i64, "constant"> -> tensor<64x!tt.ptr<i64, "constant">>
    %at = tt.addptr %xs, %lane : tensor<64x!tt.ptr<i64, "constant">>, tensor<64xi32>
    %v = tt.load %at : tensor<64x!tt.ptr<i64, "constant">>
    %p = tt.int_to_ptr %v : tensor<64xi64> -> tensor<64x!tt.ptr<i32>>
    %q = tt.addptr %p, %lane : tensor<64x!tt.ptr<i32>>, tensor<64xi32>
    %chosen = arith.select %first, %p, %q : tensor<64xi1>, tensor<64x!tt.ptr<i32>>
    %number = tt.ptr_to_int %chosen : tensor<64x!tt.ptr<i32>> -> tensor<64xi64>
    %os = tt.splat %out : !tt.ptr<i64> -> tensor<64x!tt.ptr<i64>>
    %o = tt.addptr %os, %lane : tensor<64x!tt.ptr<i64>>, tensor<64xi32>
    tt.store %o, %number : tensor<64x!tt.ptr<i64>>
    tt.return
  }
}
"""
THROUGH = """
module {
  tt.func public @through(%table: !tt.ptr<i64>, %out: !tt.ptr<i32>) {
    %lane = tt.make_range {end = 16 : i32, start = 0 : i32} : tensor<16xi32>
    %ts = tt.splat %table : !tt.ptr<i64> -> tensor<16x!tt.ptr<i64>>
    %at = tt.addptr %ts, %lane : tensor<16x!tt.ptr<i64>>, tensor<16xi32>
    %v = tt.load %at : tensor<16x!tt.ptr<i64>>
    %p = tt.int_to_ptr %v : tensor<16xi64> -> tensor<16x!tt.ptr<i32>>
    %q = tt.addptr %p, %lane : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    %e = tt.load %q : tensor<16x!tt.ptr<i32>>
    %os = tt.splat %out : !tt.ptr<i32> -> tensor<16x!tt.ptr<i32>>
    %o = tt.addptr %os, %lane : tensor<16x!tt.ptr<i32>>, tensor<16xi32>
    tt.store %o, %e : tensor<16x!tt.ptr<i32>>
    tt.return
  }
}
"""
ONE = """
module {
  tt.func public @one(%out: !tt.ptr<i64>) {
    %c = arith.constant dense<41> : tensor<1xi64>
    %one = arith.constant 1 : i64
    %s = tt.unsplat %c : tensor<1xi64>
    %sum = arith.addi %s, %one : i64
    tt.store %out, %sum : !tt.ptr<i64>
    tt.return
  }
}
"""


def test_an_address_made_of_any_integer_keeps_its_last_bits() -> None:
    x = np.random.default_rng(0).integers(-(2**62), 2**62, 64)
    out = np.zeros(64, dtype=np.int64)
    launch.compile_ttir(CHOOSE).launch((1, 1, 1), [x.ctypes.data, out.ctypes.data])
    lane = np.arange(64)
    assert (out == np.where(lane < 32, x, x + 4 * lane)).all()


def test_memory_is_read_through_addresses_kept_in_memory() -> None:
    rows = np.arange(256, dtype=np.int32).reshape(16, 16)
    table = rows.ctypes.data + 64 * np.arange(16, dtype=np.int64)[::-1].copy()
    out = np.zeros(16, dtype=np.int32)
    launch.compile_ttir(THROUGH).launch((1, 1, 1), [table.ctypes.data, out.ctypes.data])
    assert (out == rows[::-1].diagonal()).all()


def test_the_element_of_a_tensor_of_one_is_a_scalar() -> None:
    out = np.zeros(1, dtype=np.int64)
    launch.compile_ttir(ONE).launch((1, 1, 1), [out.ctypes.data])
    assert out[0] == 42
