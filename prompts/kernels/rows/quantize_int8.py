"""Symmetric int8 quantisation per row: codes and one scale, one program per row.

The row is walked twice, for the largest magnitude and for the codes. Rounding is to nearest, ties to even, by adding
and taking off 1.5 * 2**23, which is exact for magnitudes below 2**22 and needs no library call. Codes are products with
the reciprocal of the scale: a value on a rounding boundary may land one code away. Use this form for dynamic per-token
quantisation (int8, fp8).
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((256, 2), (512, 4), (1024, 4), (4096, 8))],
    key=["n"],
)
@triton.jit
def quantize_row(x_ptr, q_ptr, scale_ptr, x_row, x_col, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    largest = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(x))
    scale = tl.maximum(tl.max(largest, axis=0), 1e-6) / 127.0
    step = 1.0 / scale
    for start in range(0, n, BLOCK):
        at = start + cols
        x = tl.load(x_ptr + row * x_row + at * x_col, mask=at < n, other=0.0).to(tl.float32)
        code = (x * step + 12582912.0) - 12582912.0
        tl.store(q_ptr + row * n + at, code.to(tl.int32).to(tl.int8), mask=at < n)
    tl.store(scale_ptr + row, scale)


def quantize_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    m, n = x.shape
    q = torch.empty((m, n), dtype=torch.int8, device=x.device)
    scale = torch.empty((m, 1), dtype=torch.float32, device=x.device)
    quantize_row[(m,)](x, q, scale, x.stride(0), x.stride(1), n)
    return q, scale
