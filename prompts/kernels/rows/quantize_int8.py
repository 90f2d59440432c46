"""Symmetric int8 quantisation per row: codes and one scale, one program per row.

The largest magnitude and the codes come from the same loaded block. Rounding is to nearest, ties to even, by adding and
taking off 1.5 * 2**23, which is exact for magnitudes below 2**22 and needs no library call. Use this form for dynamic
per-token quantisation (int8, fp8).
"""

import torch
import triton
import triton.language as tl

ONE_BLOCK = 16384


@triton.autotune(configs=[triton.Config({}, num_warps=w) for w in (4, 8, 16)], key=["n"])
@triton.jit
def quantize_block(x_ptr, q_ptr, scale_ptr, x_row, x_col, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * x_row + cols * x_col, mask=cols < n, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-6) / 127.0
    code = (x / scale + 12582912.0) - 12582912.0
    tl.store(q_ptr + row * n + cols, code.to(tl.int8), mask=cols < n)
    tl.store(scale_ptr + row, scale)


@triton.autotune(configs=[triton.Config({"BLOCK": b}, num_warps=8) for b in (1024, 4096, 8192)], key=["n"])
@triton.jit
def quantize_loop(x_ptr, q_ptr, scale_ptr, x_row, x_col, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    largest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(x))
    scale = tl.maximum(tl.max(largest, axis=0), 1e-6) / 127.0
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=0.0).to(tl.float32)
        code = (x / scale + 12582912.0) - 12582912.0
        tl.store(q_ptr + row * n + at, code.to(tl.int8), mask=at < n)
    tl.store(scale_ptr + row, scale)


def quantize_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    m, n = x.shape
    q = torch.empty((m, n), dtype=torch.int8, device=x.device)
    scale = torch.empty((m, 1), dtype=torch.float32, device=x.device)
    if n <= ONE_BLOCK:
        quantize_block[(m,)](x, q, scale, x.stride(0), x.stride(1), n, BLOCK=triton.next_power_of_2(n))
    else:
        quantize_loop[(m,)](x, q, scale, x.stride(0), x.stride(1), n)
    return q, scale
