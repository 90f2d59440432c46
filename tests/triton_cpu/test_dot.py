"""tl.dot: every operand type and layout against float64, exactness at the ends of bfloat16's range, all levels."""

from __future__ import annotations

import dataclasses

import pytest
import torch
import triton
import triton.language as tl

from kernelsmith.triton_cpu.emit.codegen import generate
from kernelsmith.triton_cpu.emit.dot_plan import blocking, scheme
from kernelsmith.triton_cpu.isa import AVX2, AVX512, BASELINE, Isa, host_isa
from kernelsmith.triton_cpu.read.ir import Element
from kernelsmith.triton_cpu.run.launch import compile_ttir

close = torch.testing.assert_close


@triton.jit
def product(
    a, b, c, M, N, K,
    am: tl.constexpr, ak: tl.constexpr, bk: tl.constexpr, bn: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, ONTO: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    j = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (i < M) & (j < N)
    acc = tl.load(c + i * N + j, mask=inside, other=0).to(SUM) if ONTO else tl.zeros((BM, BN), SUM)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        left = tl.load(a + i * am + k[None, :] * ak, mask=(i < M) & (k[None, :] < K), other=0)
        right = tl.load(b + k[:, None] * bk + j * bn, mask=(k[:, None] < K) & (j < N), other=0)
        acc = tl.dot(left, right, acc, out_dtype=SUM)
    tl.store(c + i * N + j, acc, mask=inside)


SUMS = {torch.int8: (torch.int32, tl.int32), torch.float64: (torch.float64, tl.float64)}
LEVELS = [host_isa(), dataclasses.replace(host_isa(), bf16_dot=False, vnni=False), AVX2, BASELINE]


def operand(rows: int, columns: int, dtype: torch.dtype, *, turned: bool) -> torch.Tensor:
    shape = (columns, rows) if turned else (rows, columns)
    whole = dtype == torch.int8
    values = torch.randint(-128, 128, shape, dtype=dtype) if whole else torch.randn(shape).to(dtype)
    return values.T if turned else values


def run(
    a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, blocks: tuple[int, int, int], *, onto: bool = False,
    level: Isa | None = None, total: tl.dtype | None = None,
) -> torch.Tensor:  # fmt: skip
    """c (+)= a @ b on this machine, or as code for another level."""
    (m, k), n = a.shape, b.shape[1]
    bm, bn, bk = blocks
    sizes = dict(zip(("am", "ak", "bk", "bn"), (*a.stride(), *b.stride()), strict=True))
    sizes |= {"BM": bm, "BN": bn, "BK": bk, "ONTO": onto, "SUM": total or SUMS.get(a.dtype, (None, tl.float32))[1]}
    grid = (triton.cdiv(m, bm), triton.cdiv(n, bn), 1)
    if level is None:
        product[grid](a, b, c, m, n, k, **sizes)
        return c
    compiled = product.warmup(a, b, c, m, n, k, grid=grid, **sizes)
    slots = [t.data_ptr() for t in (a, b, c)] + [s for s in (m, n, k) if s != 1]
    compile_ttir(compiled.asm["ttir"], isa=level).launch(grid, slots)
    return c


def check(a: torch.Tensor, b: torch.Tensor, blocks: tuple[int, int, int], level: Isa | None = None) -> None:
    dtype = SUMS.get(a.dtype, (torch.float32, None))[0]
    c = run(a, b, torch.empty(a.shape[0], b.shape[1], dtype=dtype), blocks, level=level)
    if a.dtype == torch.int8:
        assert torch.equal(c, a.int() @ b.int())
    else:
        tight = 1e-12 if a.dtype == torch.float64 else 1e-5
        close(c.double(), a.double() @ b.double(), rtol=tight, atol=tight * 10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8], ids=str)
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)], ids=str)
def test_types_and_layouts_whole_and_cut(dtype: torch.dtype, turned: tuple[bool, bool]) -> None:
    blocks = (32, 64, 32)
    for m, n, k in ((64, 128, 64), (33, 70, 50)):
        a, b = operand(m, k, dtype, turned=turned[0]), operand(k, n, dtype, turned=turned[1])
        check(a, b, blocks)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize(
    "blocks", [(1, 16, 16), (2, 64, 32), (16, 16, 16), (64, 8, 16), (8, 2, 4), (16, 128, 16)], ids=str
)
def test_small_products(dtype: torch.dtype, blocks: tuple[int, int, int]) -> None:
    m, n, k = blocks
    check(operand(m, k, dtype, turned=False), operand(k, n, dtype, turned=False), blocks)


@pytest.mark.parametrize("level", LEVELS[1:], ids=["no products of pairs", "avx2", "baseline"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.int8], ids=str)
def test_other_levels(level: Isa, dtype: torch.dtype) -> None:
    if level.avx2 and not host_isa().avx2:
        pytest.skip("this processor has no AVX2")
    check(operand(33, 64, dtype, turned=False), operand(64, 70, dtype, turned=True), (32, 32, 32), level)


TINY, MIDDLE = 2.0**-130, 2.0**-70
BF16_EXTREMES = {
    "denormal operand": (TINY, 2.0**100, 0.0),
    "denormal right operand": (2.0**100, TINY, 0.0),
    "denormal product": (MIDDLE, MIDDLE, 0.0),
    "denormal accumulator": (0.0, 1.0, 2.0**-140),
    "sum that becomes denormal": (2.0**-60, -(2.0**-60), 2.0**-120 + 2.0**-140),
    "all ordinary": (3.0, 2.0**-60, 2.0**-100),
}


@pytest.mark.parametrize("extreme", BF16_EXTREMES)
@pytest.mark.parametrize("everywhere", [True, False])
def test_bfloat16_products_keep_denormals(extreme: str, everywhere: bool) -> None:
    x, y, start = BF16_EXTREMES[extreme]
    a, b = torch.zeros(32, 32, dtype=torch.bfloat16), torch.zeros(32, 32, dtype=torch.bfloat16)
    a[:, :1], b[:1, :] = x, y
    if not everywhere:
        a[1:], b[:, 1:] = 0.0, 0.0
    c = torch.full((32, 32), start)
    expected = (a.double() @ b.double() + c.double()).float()
    assert torch.equal(run(a, b, c, (32, 32, 32), onto=True), expected)
    if start == 0.0:
        assert torch.equal(run(a, b, torch.empty(32, 32), (32, 32, 16)), expected)


def test_a_denormal_tile_among_others_is_summed_exactly() -> None:
    a, b = torch.ones(32, 128, dtype=torch.bfloat16), torch.ones(128, 32, dtype=torch.bfloat16)
    a[:, :64] = 0
    a[3, 40], b[40, 5] = TINY, 2.0**10
    a[:, 64:], b[64:] = 0, 0
    a[3, 100], b[100, 5] = 2.0**-120, 0.5
    c = run(a, b, torch.empty(32, 32), (32, 32, 32))
    assert torch.equal(c, (a.double() @ b.double()).float())
    assert c[3, 5] == 2.0**-120 + 2.0**-121


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_infinities_and_nan_pass_through(dtype: torch.dtype) -> None:
    a, b = torch.randn(32, 32).to(dtype), torch.randn(32, 32).to(dtype)
    a[3, 4], b[7, 8], a[9, 7] = float("inf"), float("nan"), 0.0
    close(run(a, b, torch.empty(32, 32), (32, 32, 32)), a.float() @ b.float(), equal_nan=True, rtol=1e-5, atol=1e-5)


def test_half_accumulators_are_rounded_once() -> None:
    a, b = torch.randn(32, 64).half(), torch.randn(64, 32).half()
    c = run(a, b, torch.empty(32, 32, dtype=torch.float16), (32, 32, 64), total=tl.float16)
    close(c, (a.double() @ b.double()).half(), rtol=2**-10, atol=1e-6)


@triton.jit
def batched(a, b, c, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    batch = tl.arange(0, B)[:, None, None]
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    left = tl.load(a + batch * M * K + m[None, :, None] * K + k[None, None, :])
    right = tl.load(b + batch * K * N + n[None, :, None] * K + k[None, None, :])
    product = tl.dot(left, tl.trans(right, 0, 2, 1))
    tl.store(
        c + batch * M * N + m[None, :, None] * N + n[None, None, :], product + tl.dot(left * 2, left.trans(0, 2, 1))
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_batches(dtype: torch.dtype) -> None:
    a, b, c = torch.randn(4, 16, 32).to(dtype), torch.randn(4, 16, 32).to(dtype), torch.empty(4, 16, 16)
    batched[(1,)](a, b, c, B=4, M=16, N=16, K=32)
    close(c, a.float() @ b.float().mT + 2 * a.float() @ a.float().mT, rtol=1e-4, atol=1e-4)


@triton.jit
def wrapped_rows(a, b, c, M, K: tl.constexpr, N: tl.constexpr, BM: tl.constexpr):
    """Rows past the end wrap around instead of being masked, as in Triton's tutorial."""
    i = (tl.program_id(0) * BM + tl.arange(0, BM)) % M
    k, j = tl.arange(0, K), tl.arange(0, N)
    acc = tl.dot(tl.load(a + i[:, None] * K + k[None, :]), tl.load(b + k[:, None] * N + j[None, :]))
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    tl.store(c + row[:, None] * N + j[None, :], acc, mask=row[:, None] < M)


def test_rows_that_wrap_around() -> None:
    a, b, c = torch.randn(50, 32), torch.randn(32, 32), torch.empty(50, 32)
    wrapped_rows[(2,)](a, b, c, 50, K=32, N=32, BM=32)
    close(c, a @ b, rtol=1e-4, atol=1e-4)


@triton.jit
def diagonal_operand(a, b, c, N: tl.constexpr):
    """Addresses that no sum of a row's part and a column's part describes."""
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    left = tl.load(a + i * N + (i + j) % N)
    tl.store(c + i * N + j, tl.dot(left, tl.load(b + i * N + j, mask=j <= i, other=0.0)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_operands_that_are_no_planes(dtype: torch.dtype) -> None:
    a, b, c = torch.randn(32, 32).to(dtype), torch.randn(32, 32).to(dtype), torch.empty(32, 32)
    diagonal_operand[(1,)](a, b, c, N=32)
    rolled = torch.stack([row.roll(-i) for i, row in enumerate(a.float())])
    close(c, rolled @ b.float().tril(), rtol=1e-4, atol=1e-4)


def test_blocks_fill_registers_and_no_more() -> None:
    for isa, registers in ((AVX512, 32), (AVX2, 16), (BASELINE, 16)):
        for rows, columns in ((64, 64), (1, 256), (16, 16), (128, 32), (2, 8), (64, 2)):
            how = scheme(isa, Element.F32, Element.F32, Element.F32, 64, 32, columns)
            block = blocking(isa, how, rows, columns)
            assert rows % block.rows == 0 and columns % block.panel == 0
            assert block.rows * block.vectors <= registers // 2
    assert blocking(AVX512, scheme(AVX512, Element.F32, Element.F32, Element.F32, 64, 32, 64), 64, 64).rows == 8


@triton.jit
def from_descriptors(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    left = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    right = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    i, j = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        acc = tl.dot(left.load([i, k]), right.load([k, j]), acc)
    at = (i + tl.arange(0, BM))[:, None] * N + (j + tl.arange(0, BN))[None, :]
    tl.store(c + at, acc, mask=((i + tl.arange(0, BM)) < M)[:, None] & ((j + tl.arange(0, BN)) < N)[None, :])


def test_tensor_descriptors_are_read_in_place() -> None:
    a, b, c = torch.randn(50, 64), torch.randn(64, 80), torch.empty(50, 80)
    compiled = from_descriptors[(2, 3)](a, b, c, 50, 80, 64, BM=32, BN=32, BK=32)
    close(c, a @ b, rtol=1e-4, atol=1e-4)
    assert generate(compiled.asm["ttir"], isa=host_isa()).source.count("const char *tile") == 2
