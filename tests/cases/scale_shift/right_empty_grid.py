"""Right: no values make a grid of no programs, which Triton does not launch."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_shift_kernel(x, y, n, step, a, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at * step, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + at, a * value + 1.0, mask=at < n)


def scale_shift(x, a):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    scale_shift_kernel[(1 + (x.numel() - 1) // 256,)](x, y, x.numel(), x.stride(0), a, BLOCK=256)
    return y
