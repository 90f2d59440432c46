"""Wrong: squares and sums in the dtype of the input."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x, w, y, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    there = columns < n
    value = tl.load(x + row * n + columns, mask=there, other=0.0)
    weight = tl.load(w + columns, mask=there, other=0.0)
    squares = tl.sum(value * value, 0).to(tl.float32)
    out = (value.to(tl.float32) * tl.rsqrt(squares / n + 1e-6)).to(value.dtype) * weight
    tl.store(y + row * n + columns, out, mask=there)


def rms_norm(x, w):
    y = torch.empty_like(x)
    rms_norm_kernel[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
