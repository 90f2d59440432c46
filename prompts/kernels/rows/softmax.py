"""Softmax over the last dimension, one program per row.

A row of up to ONE_BLOCK elements is held in one block: read once, written once. A longer row is walked in blocks, first
for maximum and sum together (the sum is rescaled whenever the maximum grows), then for the result. Use this form for
every row statistic that rescales the row: softmax, log_softmax, normalised weights.
"""

import torch
import triton
import triton.language as tl

ONE_BLOCK = 16384


@triton.autotune(configs=[triton.Config({}, num_warps=w) for w in (4, 8, 16)], key=["n"])
@triton.jit
def softmax_block(x_ptr, y_ptr, x_row, x_col, y_row, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + cols * x_col, mask=cols < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * y_row + cols, e * (1.0 / tl.sum(e, axis=0)), mask=cols < n)


@triton.autotune(configs=[triton.Config({"BLOCK": b}, num_warps=8) for b in (128, 256, 512, 1024, 4096)], key=["n"])
@triton.jit
def softmax_loop(x_ptr, y_ptr, x_row, x_col, y_row, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    top = float("-inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, axis=0))
        shift = tl.where(higher == float("-inf"), 0.0, higher)  # a block of nothing but -inf adds 0, not NaN
        total = total * tl.exp(top - shift) + tl.sum(tl.exp(x - shift), axis=0)
        top = higher
    scale = 1.0 / total
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * y_row + at, tl.exp(x - top) * scale, mask=at < n)


def softmax(x: torch.Tensor) -> torch.Tensor:
    m, n = x.shape
    y = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if n <= ONE_BLOCK:
        softmax_block[(m,)](x, y, x.stride(0), x.stride(1), y.stride(0), n, BLOCK=triton.next_power_of_2(n))
    else:
        softmax_loop[(m,)](x, y, x.stride(0), x.stride(1), y.stride(0), n)
    return y
