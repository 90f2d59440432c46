"""RMSNorm over the last dimension, one program per row.

The row is walked twice, for the mean square and for the result; the second read comes from cache. Squares are summed
in float32 whatever the dtype, lane by lane, with one reduction at the end. A block as long as the row makes each walk
one step (good on GPUs); short blocks keep the sums in registers (good on CPUs). Use this form for norms without a mean.
"""

import torch
import triton
import triton.language as tl

MOST_PROGRAMS = 65_535  # of a launch on an Ascend; others allow more


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((256, 2), (512, 4), (1024, 4), (4096, 8))],
    key=["n"],
)
@triton.jit
def rms_norm_row(x_ptr, w_ptr, y_ptr, x_row, x_col, y_row, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=0.0).to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n + eps)
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * y_row + at, x * scale * w, mask=at < n)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    for first in range(0, m, MOST_PROGRAMS):
        rows, out = x[first : first + MOST_PROGRAMS], y[first : first + MOST_PROGRAMS]
        rms_norm_row[(rows.shape[0],)](rows, weight, out, x.stride(0), x.stride(1), y.stride(0), n, eps)
    return y
