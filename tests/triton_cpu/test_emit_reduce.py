"""Reductions, scans and sorts along every axis, in vectors and without."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernelsmith.triton_cpu.run import launch
from tests.triton_cpu import kernels

SHAPES = [(8, 64, 8, 64), (5, 50, 8, 64), (30, 3, 32, 4), (1, 100, 1, 128), (100, 1, 128, 1)]
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.float16, torch.float64], ids=str)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sum_max_and_first_argmax(shape: tuple[int, int, int, int], axis: int, dtype: torch.dtype) -> None:
    rows, columns, block_rows, block_columns = shape
    x = torch.randint(-20, 20, (rows, columns)).to(dtype)
    top = x.amax(axis)
    first = (x == x.amax(axis, keepdim=True)).double().argmax(axis).int()
    for operation, expected in ((0, x.sum(axis, dtype=dtype)), (1, top), (3, first)):
        out = torch.empty_like(expected)
        kernels.red2[(1,)](x, out, rows, columns, BM=block_rows, BN=block_columns, AX=axis, OP=operation)
        torch.testing.assert_close(out, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_max_ignores_nan_unless_there_is_nothing_else(axis: int) -> None:
    x = torch.randn(8, 64)
    x[0], x[1, ::2], x[:, 3], x[2] = NAN, NAN, NAN, -INF
    out = torch.empty(x.shape[1 - axis])
    kernels.red2[(1,)](x, out, 8, 64, BM=8, BN=64, AX=axis, OP=1)
    expected = torch.where(x.isnan(), -INF, x).amax(axis)
    expected[x.isnan().all(axis)] = NAN
    torch.testing.assert_close(out, expected, equal_nan=True)


def test_the_sum_of_negative_zeros_is_negative_zero() -> None:
    x = torch.full((8, 64), -0.0)
    for axis in (0, 1):
        out = torch.zeros(x.shape[1 - axis])
        kernels.red2[(1,)](x, out, 8, 64, BM=8, BN=64, AX=axis, OP=0)
        assert torch.signbit(out).all()


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(8, 64), (16, 8), (4, 16)], ids=str)
def test_a_combiner_of_three_operands(shape: tuple[int, int], axis: int) -> None:
    x = torch.randn(shape) * 3 + 5
    out = torch.empty(shape[1 - axis])
    kernels.welford[(1,)](x, out, shape[1], BM=shape[0], BN=shape[1], AX=axis)
    torch.testing.assert_close(out, x.var(axis, unbiased=False), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("shape", [(4, 64), (16, 8), (1, 128)], ids=str)
def test_scans(shape: tuple[int, int], axis: int, reverse: bool) -> None:
    x = torch.rand(shape) + 0.5
    for operation, function in ((0, torch.cumsum), (1, torch.cumprod)):
        out = torch.empty_like(x)
        kernels.scan2[(1,)](x, out, BM=shape[0], BN=shape[1], AX=axis, REV=reverse, OP=operation)
        expected = function(x.flip(axis), axis).flip(axis) if reverse else function(x, axis)
        torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("descending", [False, True])
def test_sort(descending: bool) -> None:
    x = torch.randn(4, 16)
    out = torch.empty_like(x)
    kernels.sort2[(1,)](x, out, M=4, N=16, DESC=descending)
    assert torch.equal(out, x.sort(1, descending=descending).values)


@pytest.mark.parametrize(("size", "group"), [(256, 32), (256, 4), (64, 16)])
def test_reshape_keeps_row_major_order(size: int, group: int) -> None:
    x = torch.randn(size)
    out = torch.empty(2 * size // group)
    kernels.reshape_sum[(1,)](x, out, B=size, G=group)
    torch.testing.assert_close(out, torch.cat([x.view(-1, group).sum(1), x.view(group, -1).amax(0)]))


def test_histogram_with_mask_and_any() -> None:
    x = torch.randint(0, 16, (100,), dtype=torch.int32)
    out = torch.zeros(16, dtype=torch.int32)
    kernels.hist[(1,)](x, out, 100, B=128, NB=16)
    assert torch.equal(out, torch.bincount(x, minlength=16).int())
    flags = torch.empty(2, dtype=torch.int32)
    kernels.anyall[(1,)](torch.tensor([1, 2, 5, 0], dtype=torch.int32), flags, 4, B=16)
    assert flags.tolist() == [1, 1]


@pytest.mark.parametrize(("first", "second"), [(100, 3), (3, 100), (0, 0), (128, 128), (128, 1), (17, 16)])
def test_what_lies_past_the_masks_counts(first: int, second: int) -> None:
    data = torch.randn(128)
    out = torch.empty(6)
    kernels.padded_sums[(1,)](data, out, first, second, B=128)
    index = torch.arange(128)
    x, y = torch.where(index < first, data, 2.5), torch.where(index < second, data, -1.0)
    expected = [
        x.sum(),
        torch.where(index < first, x * x, index.float()).sum(),
        torch.where(index < min(first, second), x, 7.0).max(),
        (x * y + 1).sum(),
        y.min(),
        torch.where(index < first, data, 0.5).sum(),
    ]
    torch.testing.assert_close(out, torch.stack(expected), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("bits", [8, 16])
def test_a_sum_in_a_narrow_type_wraps(bits: int) -> None:
    text = f"""
    tt.func public @sum(%out: !tt.ptr<i{bits}>) {{
      %x = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32>
      %square = arith.muli %x, %x : tensor<64xi32>
      %narrow = arith.trunci %square : tensor<64xi32> to tensor<64xi{bits}>
      %sum = "tt.reduce"(%narrow) <{{axis = 0 : i32}}> ({{
      ^bb0(%a: i{bits}, %b: i{bits}):
        %c = arith.addi %a, %b : i{bits}
        tt.reduce.return %c : i{bits}
      }}) : (tensor<64xi{bits}>) -> i{bits}
      tt.store %out, %sum : !tt.ptr<i{bits}>
      tt.return
    }}"""
    out = np.zeros(1, dtype=f"int{bits}")
    launch.compile_ttir(text).launch((1, 1, 1), [out.ctypes.data])
    assert out[0] == (np.arange(64) ** 2).sum().astype(out.dtype)
