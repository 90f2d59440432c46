"""LayerNorm over the last dimension, one program per row.

The variance is the mean of squared deviations from the mean (two steps over a block that is already loaded), never
E[x^2] - E[x]^2, which cancels when the mean is large. Longer rows are walked three times for the same reason. Use this
form for norms with a mean; lanes past the end are set to zero after the mean is taken off, or they would count.
"""

import torch
import triton
import triton.language as tl

ONE_BLOCK = 16384


@triton.autotune(configs=[triton.Config({}, num_warps=w) for w in (4, 8, 16)], key=["n"])
@triton.jit
def layer_norm_block(x_ptr, w_ptr, b_ptr, y_ptr, x_row, x_col, y_row, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + cols * x_col, mask=cols < n, other=0.0).to(tl.float32)
    centred = tl.where(cols < n, x - tl.sum(x, axis=0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n + eps)
    w = tl.load(w_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
    b = tl.load(b_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * y_row + cols, centred * scale * w + b, mask=cols < n)


@triton.autotune(configs=[triton.Config({"BLOCK": b}, num_warps=8) for b in (1024, 4096, 8192)], key=["n"])
@triton.jit
def layer_norm_loop(x_ptr, w_ptr, b_ptr, y_ptr, x_row, x_col, y_row, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + cols
        sums += tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / n
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=0.0).to(tl.float32)
        centred = tl.where(at < n, x - mean, 0.0)
        squares += centred * centred
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n + eps)
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + at, mask=at < n, other=0.0).to(tl.float32)
        b = tl.load(b_ptr + at, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * y_row + at, (x - mean) * scale * w + b, mask=at < n)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    strides = x.stride(0), x.stride(1), y.stride(0)
    if n <= ONE_BLOCK:
        layer_norm_block[(m,)](x, weight, bias, y, *strides, n, eps, BLOCK=triton.next_power_of_2(n))
    else:
        layer_norm_loop[(m,)](x, weight, bias, y, *strides, n, eps)
    return y
