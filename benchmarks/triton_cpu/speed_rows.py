"""Rows of the speed table without a matrix product: norms, losses, elementwise operators, scans, gathers.

Those that no goal was set for have the goal 0: they stand here to be seen.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F

from benchmarks.triton_cpu import row_kernels
from benchmarks.triton_cpu.speed_case import Call, Case, Work


def _simple(ours: Call, eager: Call, *shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Work:
    """Arguments from a normal distribution; float32 within rounding of sums of that many terms."""
    exact = dtype is torch.float32
    arguments = tuple(torch.randn(shape).to(dtype) for shape in shapes)
    return Work(arguments, ours, eager, rtol=1e-4 if exact else 2e-2, atol=1e-5 if exact else 1e-2)


def _softmax() -> Work:
    return _simple(row_kernels.softmax, lambda x: x.softmax(-1), (4096, 1000))


def _layer_norm() -> Work:
    size = 1000
    return _simple(
        row_kernels.layer_norm, lambda x, w, b: F.layer_norm(x, (size,), w, b), (4096, size), (size,), (size,)
    )


def _rms_norm() -> Work:
    size = 2048
    return _simple(row_kernels.rms_norm, lambda x, w: F.rms_norm(x, (size,), w, 1e-6), (4096, size), (size,))


def _swiglu(dtype: torch.dtype = torch.float32) -> Work:
    shape = (2048, 8192)
    return _simple(row_kernels.swiglu, lambda gate, up: F.silu(gate) * up, shape, shape, dtype=dtype)


def _cross_entropy() -> Work:
    logits, target = torch.randn(512, 32000), torch.randint(0, 32000, (512,))
    eager = functools.partial(F.cross_entropy, reduction="none")
    return Work((logits, target), row_kernels.cross_entropy, eager, rtol=1e-4, atol=1e-5)


def _gelu() -> Work:
    return _simple(row_kernels.gelu, F.gelu, (1024, 1024))


def _add() -> Work:
    return _simple(row_kernels.add, torch.add, (1 << 22,), (1 << 22,))


def _cumsum() -> Work:
    work = _simple(row_kernels.cumsum, lambda x: x.cumsum(-1), (1024, 1000))
    return Work(work.arguments, work.ours, work.eager, rtol=1e-3, atol=1e-3)


def _sort() -> Work:
    return _simple(row_kernels.sort, lambda x: x.sort(-1).values, (1024, 1000))


def _argmax() -> Work:
    return _simple(row_kernels.argmax, lambda x: x.argmax(-1), (4096, 1000))


def _embedding() -> Work:
    index, table = torch.randint(0, 32000, (4096,)), torch.randn(32000, 1024)
    return Work((index, table), row_kernels.embedding, F.embedding, rtol=0, atol=0)


def _scatter_add() -> Work:
    rows = 1024

    def eager(index: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.zeros(rows, x.shape[1]).index_add(0, index, x)

    arguments = torch.randint(0, rows, (4096,)), torch.randn(4096, 256)
    ours = functools.partial(row_kernels.scatter_add, rows=rows)
    return Work(arguments, ours, eager, rtol=1e-4, atol=1e-4)


def _transpose() -> Work:
    return _simple(row_kernels.transpose, lambda x: x.t().contiguous(), (2048, 2048))


CASES = [
    Case("softmax", goal=1.15, hand_written=1.25, prepare=_softmax),
    Case("layer_norm", goal=1.3, hand_written=1.5, prepare=_layer_norm),
    Case("rms_norm", goal=2.5, hand_written=None, prepare=_rms_norm),
    Case("swiglu", goal=1.2, hand_written=None, prepare=_swiglu),
    Case("cross_entropy", goal=1.2, hand_written=None, prepare=_cross_entropy),
    Case("swiglu_bf16", goal=0, hand_written=None, prepare=functools.partial(_swiglu, torch.bfloat16)),
    Case("gelu", goal=0, hand_written=None, prepare=_gelu),
    Case("add", goal=0, hand_written=None, prepare=_add),
    Case("cumsum", goal=0, hand_written=None, prepare=_cumsum),
    Case("sort", goal=0, hand_written=None, prepare=_sort),
    Case("argmax", goal=0, hand_written=None, prepare=_argmax),
    Case("embedding", goal=0, hand_written=None, prepare=_embedding),
    Case("scatter_add", goal=0, hand_written=None, prepare=_scatter_add),
    Case("transpose", goal=0, hand_written=None, prepare=_transpose),
]
