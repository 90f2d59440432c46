"""Whole kernels: memory order, control flow, products, and operators that models use."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import triton

from kernelsmith.triton_cpu.isa import AVX2, BASELINE, Isa, host_isa
from kernelsmith.triton_cpu.run.launch import compile_ttir
from tests.triton_cpu import kernels

FOLDER = Path(__file__).parents[1] / "data" / "ttir"
close = torch.testing.assert_close


@pytest.mark.parametrize("columns", [1000, 1, 17, 1024, 0])
def test_softmax_at_every_kind_of_tail(columns: int) -> None:
    x = torch.randn(9, max(columns, 1))
    out = torch.full_like(x, 7.0)
    kernels.softmax[(9,)](out, x, x.stride(0), columns, BLOCK=1024)
    close(out, x.softmax(1) if columns else torch.full_like(x, 7.0))


def test_softmax_with_nan_and_infinities_touches_nothing_outside() -> None:
    memory = torch.randn(6, 64)
    x = memory[:, :40]
    x[0], x[1, 3], x[2], x[3, 4] = float("nan"), float("nan"), -float("inf"), float("inf")
    out = torch.full((6, 64), 5.0)
    kernels.softmax[(6,)](out, x, 64, 40, BLOCK=64)
    close(out[:, :40], x.softmax(1), equal_nan=True)
    assert (out[:, 40:] == 5).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("sizes", [(128, 128, 64, 64, 64, 32), (33, 70, 50, 16, 32, 16)], ids=str)
@pytest.mark.parametrize("transposed", [False, True])
def test_matmul(sizes: tuple[int, ...], dtype: torch.dtype, transposed: bool) -> None:
    m, n, k, *blocks = sizes
    a = torch.randn(m, k, dtype=dtype)
    b = torch.randn(n, k, dtype=dtype).T if transposed else torch.randn(k, n, dtype=dtype)
    out = torch.empty(m, n, dtype=dtype)
    grid = (triton.cdiv(m, blocks[0]) * triton.cdiv(n, blocks[1]),)
    kernels.matmul[grid](a, b, out, m, n, k, *a.stride(), *b.stride(), BM=blocks[0], BN=blocks[1], BK=blocks[2])
    close(out.float(), a.float() @ b.float(), rtol=1e-2 if dtype.itemsize == 2 else 1e-4, atol=1e-3)


def test_grouped_matmul_with_epilogue() -> None:
    m, n, k = 100, 50, 70
    a, b, bias, out = torch.randn(m, k), torch.randn(k, n), torch.randn(n), torch.empty(m, n)
    kernels.gemm_gelu[(8,)](a, b, bias, out, m, n, k, BM=32, BN=32, BK=32, GM=4)
    close(out, F.gelu(a @ b + bias), rtol=1e-4, atol=1e-4)


def test_int8_product_is_exact() -> None:
    a = torch.randint(-128, 127, (32, 64), dtype=torch.int8)
    b = torch.randint(-128, 127, (64, 32), dtype=torch.int8)
    out = torch.empty(32, 32, dtype=torch.int32)
    kernels.int8_mm[(1,)](a, b, out, M=32, N=32, K=64)
    assert torch.equal(out, a.int() @ b.int())


@pytest.mark.parametrize(("length", "block", "step"), [(128, 64, 64), (100, 32, 16), (65, 16, 32)])
def test_causal_attention(length: int, block: int, step: int) -> None:
    q, k, v = (torch.randn(2, length, 64) for _ in range(3))
    out = torch.empty_like(q)
    kernels.attention[(triton.cdiv(length, block), 2)](q, k, v, out, 0.125, length, D=64, BM=block, BN=step)
    close(out, F.scaled_dot_product_attention(q, k, v, is_causal=True), rtol=1e-4, atol=1e-5)


def test_loads_happen_before_stores_even_through_two_names_of_one_tensor() -> None:
    x = torch.arange(64.0)
    kernels.flip_inplace[(1,)](x, x, B=64)
    assert torch.equal(x, torch.arange(64.0).flip(0))
    y = torch.arange(1.0, 51.0)
    before = y.clone()
    kernels.shifted_rows[(1,)](y, 50, B=64)
    ahead = torch.cat([before[1:], torch.zeros(1)])
    expected = ahead + before
    expected[0] = ahead[0] - before[0]
    assert torch.equal(y, expected)


@pytest.mark.parametrize("by", [1, 16, -1, -16, 0, 200])
def test_a_shift_within_one_tensor_and_between_two(by: int) -> None:
    memory = torch.randn(600)
    expected = memory.clone()
    expected[200:300] = 2 * memory[200 + by : 300 + by]
    kernels.shift[(1,)](memory[200:], memory[200:], by, 100, B=128)
    assert torch.equal(memory, expected)
    other, out = torch.randn(600), torch.zeros(600)
    kernels.shift[(1,)](other[200:], out[200:], by, 100, B=128)
    assert torch.equal(out[200:300], 2 * other[200 + by : 300 + by])
    assert not out[:200].any()
    assert not out[300:].any()


def test_early_return_if_and_while() -> None:
    x = torch.randn(256)
    out = torch.zeros(4, 256)
    lengths = torch.tensor([0, 50, 101, 256], dtype=torch.int32)
    kernels.early_return[(4,)](x, out, lengths, 256, B=256)
    expected = torch.zeros(4, 256)
    for row, length in enumerate(lengths.tolist()):
        start = (x * 2 if length > 100 else x + 1)[:length]
        expected[row, :length] = start + len(range(0, length, 7))
    close(out, expected)


def test_loop_carried_values_are_assigned_at_once() -> None:
    out = torch.empty(16, dtype=torch.int32)
    kernels.fib[(1,)](out, 10, B=16)
    assert (out == 110).all()


def test_nested_loops_with_a_condition_inside() -> None:
    out = torch.empty(3, 16)
    kernels.nested_loops[(1,)](out, 3, 4, B=16)
    expected = [sum(i * 10 + j for j in range(4) if (i + j) % 2 == 0) for i in range(3)]
    assert out[:, 0].tolist() == expected


def test_a_persistent_loop_over_programs() -> None:
    x = torch.randn(1000)
    out = torch.empty_like(x)
    kernels.persistent[(3,)](x, out, 1000, B=64)
    assert torch.equal(out, x + 1)


@pytest.mark.parametrize(("height", "width"), [(10, 33), (50, 7), (3, 64)])
def test_division_and_remainder_of_indices(height: int, width: int) -> None:
    x = torch.randn(height, width)
    out = torch.empty_like(x)
    kernels.conv_index[(triton.cdiv(x.numel(), 128),)](x, out, height, width, x.numel(), B=128)
    expected = x.clone()
    expected[:-1, :-1] += x[1:, 1:]
    assert torch.equal(out, expected)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.int64, torch.float16], ids=str)
def test_atomics_return_the_old_value(dtype: torch.dtype) -> None:
    for operation in range(8):
        if (operation > 0 and dtype is torch.float16) or (operation in (4, 5, 6) and dtype.is_floating_point):
            continue
        place, value = torch.arange(16).to(dtype), torch.arange(64).to(dtype)
        memory, old = place.tolist(), []
        for number, item in enumerate(value.tolist()):
            was = memory[number // 4]
            old.append(was)
            memory[number // 4] = [
                lambda a, b: a + b,
                max,
                min,
                lambda a, b: b,
                lambda a, b: a & b,
                lambda a, b: a | b,
                lambda a, b: a ^ b,
                lambda a, b: b + 1 if a == b else a,
            ][operation](was, item)
        out = torch.empty_like(value)
        kernels.atom[(1,)](place, value, out, B=64, OP=operation)
        assert place.tolist() == memory
        assert out.tolist() == old


def test_programs_add_atomically() -> None:
    out = torch.zeros(16, dtype=torch.int32)
    x = torch.randint(0, 16, (100,), dtype=torch.int32)
    kernels.hist[(500,)](x, out, 100, B=128, NB=16)
    assert torch.equal(out, 500 * torch.bincount(x, minlength=16).int())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8], ids=str)
def test_transpose(dtype: torch.dtype) -> None:
    x = (torch.randn(100, 70) * 9).to(dtype)
    out = torch.empty(70, 100, dtype=dtype)
    kernels.transpose[(4, 3)](x, out, 100, 70, BM=32, BN=32)
    assert torch.equal(out, x.T)


def test_operators_that_models_use() -> None:
    q, c, s = torch.randn(10, 64), torch.randn(10, 32), torch.randn(10, 32)
    rotated = q.clone()
    kernels.rope[(10,)](rotated, c, s, 64, D=64)
    close(rotated, torch.cat([q[:, :32] * c - q[:, 32:] * s, q[:, 32:] * c + q[:, :32] * s], 1))

    logits, target, loss = torch.randn(20, 1500), torch.randint(0, 1500, (20,)), torch.empty(20)
    target[3] = -100
    kernels.cross_entropy[(20,)](logits, target, loss, 1500, B=512)
    close(loss, F.cross_entropy(logits, target, reduction="none"))

    values, indices = torch.empty(20, 5), torch.empty(20, 5, dtype=torch.int64)
    kernels.topk[(20,)](logits, values, indices, 1500, K=5, B=2048)
    assert torch.equal(indices, logits.topk(5).indices)

    table, index, rows = torch.randn(50, 100), torch.randint(0, 50, (37,)), torch.empty(37, 100)
    kernels.embedding[(5,)](index, table, rows, 37, 100, BM=8, BD=128)
    assert torch.equal(rows, table[index])

    x, quantised, scale = torch.randn(9, 300) * 7, torch.empty(9, 300, dtype=torch.int8), torch.empty(9)
    kernels.quant[(9,)](x, quantised, scale, 300, B=512)
    assert torch.equal(quantised, torch.round(x / (x.abs().amax(1) / 127)[:, None]).to(torch.int8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_fused_add_and_norm_in_place(dtype: torch.dtype) -> None:
    x, residual, weight = torch.randn(9, 300).to(dtype), torch.randn(9, 300).to(dtype), torch.randn(300).to(dtype)
    total = x.float() + residual.float()
    out = torch.empty_like(x)
    kernels.add_rms[(9,)](x, residual, weight, out, 300, 1e-6, B=512)
    close(residual, total.to(dtype))
    norm = total * torch.rsqrt(total.pow(2).mean(1, keepdim=True) + 1e-6) * weight.float()
    close(out, norm.to(dtype), rtol=1e-5 if dtype is torch.float32 else 1e-2, atol=1e-5)


@pytest.mark.parametrize("version", ["3.6.0", "3.7.1", "3.9.0"])
@pytest.mark.parametrize("isa", [host_isa(), AVX2, BASELINE], ids=lambda isa: isa.name)
def test_text_of_any_triton_version_runs_at_any_level(version: str, isa: Isa) -> None:
    if isa.avx2 and not host_isa().avx2:
        pytest.skip("this processor has no AVX2")
    x = torch.randn(9, 1000)
    out = torch.empty_like(x)
    softmax = compile_ttir((FOLDER / version / "softmax.ttir").read_text(), isa=isa)
    softmax.launch((9, 1, 1), [out.data_ptr(), x.data_ptr(), 1000, 1000])
    close(out, x.softmax(1))

    a, b, c = torch.randn(70, 50), torch.randn(50, 90), torch.empty(70, 90)
    product = compile_ttir((FOLDER / version / "matmul.ttir").read_text(), isa=isa)
    pointers = [a.data_ptr(), b.data_ptr(), c.data_ptr()]
    product.launch((4, 1, 1), [*pointers, 70, 90, 50, 50, 1, 90, 1, 90, 1])
    close(c, a @ b, rtol=1e-4, atol=1e-4)
