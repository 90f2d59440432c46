"""Wrong: one element too many."""

import torch
import triton
import triton.language as tl


@triton.jit
def window_sum_kernel(x, y, n, w, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for back in range(w + 1):
        total += tl.load(x + row * n + at - back, mask=(at < n) & (at >= back), other=0.0)
    tl.store(y + row * n + at, total, mask=at < n)


def window_sum(x, w):
    rows, n = x.shape
    y = torch.empty_like(x)
    window_sum_kernel[(rows, triton.cdiv(n, 64))](x, y, n, w, BLOCK=64)
    return y
