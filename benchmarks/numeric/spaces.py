# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"
"""Kernels with three numbers each: 200 and more configurations that are all right and differ in speed.

Every space is a Triton kernel on the processor, launched as its arguments and a configuration say. Sizes are small
enough that a launch takes about a millisecond.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

Values = dict[str, int]
LARGEST = 1 << 16


@dataclass(frozen=True)
class Kernels:
    """One space: the values of each number, and how a configuration is run."""

    name: str
    values: dict[str, tuple[int, ...]]
    prepare: Callable[[], Callable[[Values], Any]]
    """Makes the arguments, and gives what launches the kernel once."""
    block: tuple[str, ...] = ()
    """Numbers whose product is at most LARGEST: a larger block compiles for long and is never fast."""

    def allowed(self, values: Values) -> bool:
        return not self.block or math.prod(values[name] for name in self.block) <= LARGEST

    def all(self) -> Iterator[Values]:
        for values in itertools.product(*self.values.values()):
            one = dict(zip(self.values, values, strict=True))
            if self.allowed(one):
                yield one


@triton.jit
def _matmul(
    a, b, c, M, N, K, am, ak, bk, bn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    tile = tl.program_id(0)
    tiles = tl.cdiv(N, BN)
    rows = (tile // tiles) * BM + tl.arange(0, BM)
    columns = (tile % tiles) * BN + tl.arange(0, BN)
    steps = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        at = start + steps
        left = tl.load(
            a + rows[:, None] * am + at[None, :] * ak, mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0
        )
        right = tl.load(
            b + at[:, None] * bk + columns[None, :] * bn, mask=(at[:, None] < K) & (columns[None, :] < N), other=0.0
        )
        total = tl.dot(left, right, total, input_precision="ieee")
    tl.store(
        c + rows[:, None] * N + columns[None, :],
        total.to(c.dtype.element_ty),
        mask=(rows[:, None] < M) & (columns[None, :] < N),
    )


@triton.jit
def _softmax(x, y, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, GROUPS: tl.constexpr):
    for group in range(GROUPS):
        rows = (tl.program_id(0) * GROUPS + group) * ROWS + tl.arange(0, ROWS)
        there = rows[:, None] < M
        top = tl.full((ROWS,), float("-inf"), tl.float32)
        total = tl.zeros((ROWS,), tl.float32)
        for start in range(0, N, BLOCK):
            at = start + tl.arange(0, BLOCK)
            v = tl.load(x + rows[:, None] * N + at[None, :], mask=there & (at[None, :] < N), other=float("-inf"))
            higher = tl.maximum(top, tl.max(v, axis=1))
            total = total * tl.exp(top - higher) + tl.sum(tl.exp(v - higher[:, None]), axis=1)
            top = higher
        for start in range(0, N, BLOCK):
            at = start + tl.arange(0, BLOCK)
            mask = there & (at[None, :] < N)
            v = tl.load(x + rows[:, None] * N + at[None, :], mask=mask, other=0.0)
            tl.store(y + rows[:, None] * N + at[None, :], tl.exp(v - top[:, None]) / total[:, None], mask=mask)


@triton.jit
def _layer_norm(x, y, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr, GROUPS: tl.constexpr):
    for group in range(GROUPS):
        rows = (tl.program_id(0) * GROUPS + group) * ROWS + tl.arange(0, ROWS)
        there = rows[:, None] < M
        total = tl.zeros((ROWS, BLOCK), tl.float32)
        squares = tl.zeros((ROWS, BLOCK), tl.float32)
        for start in range(0, N, BLOCK):
            at = start + tl.arange(0, BLOCK)
            v = tl.load(x + rows[:, None] * N + at[None, :], mask=there & (at[None, :] < N), other=0.0)
            total += v
            squares += v * v
        mean = tl.sum(total, axis=1) / N
        scale = 1.0 / tl.sqrt(tl.sum(squares, axis=1) / N - mean * mean + 1e-5)
        for start in range(0, N, BLOCK):
            at = start + tl.arange(0, BLOCK)
            mask = there & (at[None, :] < N)
            v = tl.load(x + rows[:, None] * N + at[None, :], mask=mask, other=0.0)
            tl.store(y + rows[:, None] * N + at[None, :], (v - mean[:, None]) * scale[:, None], mask=mask)


@triton.jit
def _transpose(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr, TILES: tl.constexpr):
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    for tile in range(TILES):
        rows = (tl.program_id(0) * TILES + tile) * BM + tl.arange(0, BM)
        mask = (rows[:, None] < M) & (columns[None, :] < N)
        v = tl.load(x + rows[:, None] * N + columns[None, :], mask=mask)
        tl.store(y + columns[None, :] * M + rows[:, None], v, mask=mask)


@triton.jit
def _column_sum(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr, SPLIT: tl.constexpr):
    columns = tl.program_id(0) * BN + tl.arange(0, BN)
    share = tl.cdiv(M, SPLIT)
    first = tl.program_id(1) * share
    total = tl.zeros((BN,), tl.float32)
    for start in range(0, share, BM):
        rows = first + start + tl.arange(0, BM)
        mask = (rows[:, None] < first + share) & (rows[:, None] < M) & (columns[None, :] < N)
        total += tl.sum(tl.load(x + rows[:, None] * N + columns[None, :], mask=mask, other=0.0), axis=0)
    tl.store(y + tl.program_id(1) * N + columns, total, mask=columns < N)


@triton.jit
def _attention(q, k, v, o, S, HEAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, HEADS: tl.constexpr):
    for one in range(HEADS):
        base = (tl.program_id(1) * HEADS + one) * S * HEAD
        rows = tl.program_id(0) * BM + tl.arange(0, BM)
        inner = tl.arange(0, HEAD)
        query = tl.load(q + base + rows[:, None] * HEAD + inner[None, :], mask=rows[:, None] < S, other=0.0)
        top = tl.full((BM,), float("-inf"), tl.float32)
        total = tl.zeros((BM,), tl.float32)
        out = tl.zeros((BM, HEAD), tl.float32)
        for start in range(0, S, BN):
            at = start + tl.arange(0, BN)
            key = tl.load(k + base + at[None, :] * HEAD + inner[:, None], mask=at[None, :] < S, other=0.0)
            score = tl.dot(query, key, input_precision="ieee")
            score = tl.where(at[None, :] < S, score, float("-inf"))
            higher = tl.maximum(top, tl.max(score, axis=1))
            share = tl.exp(score - higher[:, None])
            rescale = tl.exp(top - higher)
            total = total * rescale + tl.sum(share, axis=1)
            value = tl.load(v + base + at[:, None] * HEAD + inner[None, :], mask=at[:, None] < S, other=0.0)
            out = tl.dot(share, value, out * rescale[:, None], input_precision="ieee")
            top = higher
        tl.store(o + base + rows[:, None] * HEAD + inner[None, :], out / total[:, None], mask=rows[:, None] < S)


def _product(m: int, n: int, k: int, dtype: torch.dtype, transposed: bool) -> Callable[[Values], Any]:
    a = torch.randn(m, k).to(dtype)
    b = torch.randn(n, k).to(dtype).T if transposed else torch.randn(k, n).to(dtype)
    c = torch.empty(m, n, dtype=dtype)

    def run(v: Values) -> None:
        grid = (triton.cdiv(m, v["BM"]) * triton.cdiv(n, v["BN"]),)
        _matmul[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), **v)

    return run


def _rows(kernel: Any, m: int, n: int) -> Callable[[Values], Any]:
    x, y = torch.randn(m, n), torch.empty(m, n)
    return lambda v: kernel[(triton.cdiv(m, v["ROWS"] * v["GROUPS"]),)](x, y, m, n, **v)


def _turned(m: int, n: int) -> Callable[[Values], Any]:
    x, y = torch.randn(m, n), torch.empty(n, m)
    return lambda v: _transpose[(triton.cdiv(m, v["BM"] * v["TILES"]), triton.cdiv(n, v["BN"]))](x, y, m, n, **v)


def _summed(m: int, n: int) -> Callable[[Values], Any]:
    x, y = torch.randn(m, n), torch.empty(64, n)
    return lambda v: _column_sum[(triton.cdiv(n, v["BN"]), v["SPLIT"])](x, y, m, n, **v)


def _attended(heads: int, s: int, head: int) -> Callable[[Values], Any]:
    q, k, v, o = (torch.randn(heads, s, head) * 0.1 for _ in range(4))

    def run(values: Values) -> None:
        grid = (triton.cdiv(s, values["BM"]), heads // values["HEADS"])
        _attention[grid](q, k, v, o, s, HEAD=head, **values)

    return run


def _powers(low: int, high: int) -> tuple[int, ...]:
    return tuple(1 << bits for bits in range(32) if low <= 1 << bits <= high)


_TILE = {"BM": _powers(16, 512), "BN": _powers(16, 512), "BK": _powers(16, 512)}
_ROWS = {"ROWS": _powers(1, 64), "BLOCK": _powers(32, 4096), "GROUPS": _powers(1, 16)}


SPACES = (
    Kernels("matmul 384", _TILE, lambda: _product(384, 384, 384, torch.float32, False)),
    Kernels("matmul thin", _TILE, lambda: _product(64, 1024, 512, torch.float32, False)),
    Kernels("matmul b turned", _TILE, lambda: _product(320, 320, 512, torch.float32, True)),
    Kernels("matmul bf16", _TILE, lambda: _product(384, 384, 384, torch.bfloat16, False)),
    Kernels("softmax", _ROWS, lambda: _rows(_softmax, 1024, 1000), ("ROWS", "BLOCK")),
    Kernels("layer norm", _ROWS, lambda: _rows(_layer_norm, 512, 3000), ("ROWS", "BLOCK")),
    Kernels(
        "transpose",
        {"BM": _powers(4, 256), "BN": _powers(4, 256), "TILES": _powers(1, 16)},
        lambda: _turned(1000, 900),
    ),
    Kernels(
        "column sum",
        {"BM": _powers(1, 128), "BN": _powers(16, 1024), "SPLIT": _powers(1, 32)},
        lambda: _summed(2000, 1000),
        ("BM", "BN"),
    ),
    Kernels(
        "attention",
        {"BM": _powers(16, 512), "BN": _powers(16, 512), "HEADS": _powers(1, 32)},
        lambda: _attended(32, 128, 32),
        ("BM", "BN"),
    ),
)
