"""RMSNorm over the last dimension, one program per row.

A row of up to ONE_BLOCK elements is held in one block; a longer one is walked twice, for the mean square and for the
result. Squares are summed in float32 whatever the dtype. Use this form for norms without a mean.
"""

import torch
import triton
import triton.language as tl

ONE_BLOCK = 16384


@triton.autotune(configs=[triton.Config({}, num_warps=w) for w in (4, 8, 16)], key=["n"])
@triton.jit
def rms_norm_block(x_ptr, w_ptr, y_ptr, x_row, x_col, y_row, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + cols * x_col, mask=cols < n, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / n + eps)
    tl.store(y_ptr + row * y_row + cols, x * scale * w, mask=cols < n)


@triton.autotune(configs=[triton.Config({"BLOCK": b}, num_warps=8) for b in (1024, 4096, 8192)], key=["n"])
@triton.jit
def rms_norm_loop(x_ptr, w_ptr, y_ptr, x_row, x_col, y_row, n, eps, BLOCK: tl.constexpr):
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
    if n <= ONE_BLOCK:
        block = triton.next_power_of_2(n)
        rms_norm_block[(m,)](x, weight, y, x.stride(0), x.stride(1), y.stride(0), n, eps, BLOCK=block)
    else:
        rms_norm_loop[(m,)](x, weight, y, x.stride(0), x.stride(1), y.stride(0), n, eps)
    return y
