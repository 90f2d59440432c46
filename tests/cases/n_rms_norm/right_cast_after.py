"""Right: multiplies the weight in float32 and rounds once, which is nearer to the truth."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x, w, y, n, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    there = columns < n
    value = tl.load(x + row * n + columns, mask=there, other=0.0)
    weight = tl.load(w + columns, mask=there, other=0.0)
    wide = value.to(tl.float32)
    scale = tl.rsqrt(tl.sum(wide * wide, 0) / n + 1e-6)
    out = wide * scale * weight.to(tl.float32)
    tl.store(y + row * n + columns, out, mask=there)


def rms_norm(x, w):
    y = torch.empty_like(x)
    rms_norm_kernel[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
