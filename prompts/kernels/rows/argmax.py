"""Argmax over the last dimension: first of equal values, NaN above everything, as torch does.

Every lane keeps its own best value and index while the row streams by; the lanes are compared once at the end, so there
is one reduction per row, not one per block. Use this form for reductions with a companion: argmin, max with indices.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((256, 4), (512, 4), (1024, 4), (2048, 8))],
    key=["n"],
)
@triton.jit
def argmax_row(x_ptr, y_ptr, x_row, x_col, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), tl.float32)
    index = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=float("-inf")).to(tl.float32)
        better = (x > best) | ((x != x) & (best == best))
        best = tl.where(better, x, best)
        index = tl.where(better, at, index)
    none = 0x7FFFFFFF
    nan_at = tl.min(tl.where(best != best, index, none), axis=0)
    top = tl.max(tl.where(best != best, float("-inf"), best), axis=0)
    top_at = tl.min(tl.where(best == top, index, none), axis=0)
    tl.store(y_ptr + row, tl.where(nan_at == none, top_at, nan_at).to(tl.int64))


def argmax(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    y = torch.empty((m,), dtype=torch.int64, device=x.device)
    argmax_row[(m,)](x, y, x.stride(0), x.stride(1), n)
    return y
