"""Rows of the speed table that multiply matrices: products and attention."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl

from benchmarks.triton_cpu.speed_case import Case, Work


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Programs in groups of `GROUP` tile rows, so that the tiles in flight share operands."""
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = pid // (GROUP * columns)
    height = tl.minimum(rows - group * GROUP, GROUP)
    within = pid % (GROUP * columns)
    i = ((group * GROUP + within % height) * BM + tl.arange(0, BM))[:, None]
    j = (within // height * BN + tl.arange(0, BN))[None, :]
    k = tl.arange(0, BK)
    a = a_ptr + i * stride_am + k[None, :] * stride_ak
    b = b_ptr + k[:, None] * stride_bk + j * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a, mask=(i < M) & (k[None, :] < K - start), other=0.0)
        right = tl.load(b, mask=(k[:, None] < K - start) & (j < N), other=0.0)
        acc = tl.dot(left, right, acc)
        a += BK * stride_ak
        b += BK * stride_bk
    tl.store(c_ptr + i * N + j, acc.to(c_ptr.dtype.element_ty), mask=(i < M) & (j < N))


def matmul(a: torch.Tensor, b: torch.Tensor, *, block: tuple[int, int, int], group: int = 4) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype)
    grid = (triton.cdiv(m, block[0]) * triton.cdiv(n, block[1]),)
    matmul_kernel[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), BM=block[0], BN=block[1], BK=block[2], GROUP=group)
    return c


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    length,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    """One head and one block of queries per program, with the running maximum and sum of each query's row."""
    head = tl.program_id(1).to(tl.int64) * length * D
    first = tl.program_id(0) * BM
    i = first + tl.arange(0, BM)
    d = tl.arange(0, D)
    q = tl.load(q_ptr + head + i[:, None] * D + d[None, :], mask=i[:, None] < length, other=0.0)
    top = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    end = tl.minimum(first + BM, length) if CAUSAL else length
    for start in range(0, end, BN):
        j = start + tl.arange(0, BN)
        k = tl.load(k_ptr + head + j[:, None] * D + d[None, :], mask=j[:, None] < length, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
        seen = (j[None, :] <= i[:, None]) & (j[None, :] < length) if CAUSAL else j[None, :] < length
        s = tl.where(seen, s, -float("inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(p, 1)
        v = tl.load(v_ptr + head + j[:, None] * D + d[None, :], mask=j[:, None] < length, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None])
        top = higher
    out = acc / total[:, None]
    tl.store(out_ptr + head + i[:, None] * D + d[None, :], out.to(out_ptr.dtype.element_ty), mask=i[:, None] < length)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, block: tuple[int, int] = (64, 64)
) -> torch.Tensor:
    batch, heads, length, depth = q.shape
    out = torch.empty_like(q)
    scale = depth**-0.5 * 1.4426950408889634  # log2(e): the kernel's powers are of two
    grid = (triton.cdiv(length, block[0]), batch * heads)
    attention_kernel[grid](q, k, v, out, scale, length, D=depth, BM=block[0], BN=block[1], CAUSAL=causal)
    return out


def _matmul(size: int, dtype: torch.dtype, **settings: Any) -> Work:
    arguments = torch.randn(size, size, dtype=dtype), torch.randn(size, size, dtype=dtype)
    rtol = 1e-4 if dtype == torch.float32 else 2e-2
    return Work(arguments, functools.partial(matmul, **settings), torch.mm, rtol=rtol, atol=rtol * size**0.5 / 4)


def _attention(dtype: torch.dtype, causal: bool, **settings: Any) -> Work:
    arguments = tuple(torch.randn(1, 4, 2048, 64, dtype=dtype) for _ in range(3))
    ours = functools.partial(attention, causal=causal, **settings)
    eager = functools.partial(F.scaled_dot_product_attention, is_causal=causal)
    rtol = 1e-4 if dtype == torch.float32 else 2e-2
    return Work(arguments, ours, eager, rtol=rtol, atol=rtol)


def _case(name: str, goal: float, hand_written: float | None, prepare: Any, *arguments: Any, **settings: Any) -> Case:
    return Case(name, goal, hand_written, functools.partial(prepare, *arguments, **settings))


_TILE = (128, 128, 128)
_FP32, _BF16 = torch.float32, torch.bfloat16
CASES = [
    *(_case(f"matmul fp32 {n}", 1.3, 1.9, _matmul, n, _FP32, block=_TILE) for n in (512, 1024, 2048)),
    *(_case(f"matmul bf16 {n}", 0.85, 0.95, _matmul, n, _BF16, block=_TILE) for n in (512, 1024, 2048)),
    _case("attention fp32", 1.5, 2.0, _attention, _FP32, False),
    _case("attention fp32 causal", 1.5, None, _attention, _FP32, True),
    _case("attention bf16", 0.85, None, _attention, _BF16, False),
]
