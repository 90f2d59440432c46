"""Wrong: in Triton, minus x is 0 - x, so that no zero becomes negative."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_sign_kernel(x, y, z, n, step, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    size = tl.abs(tl.load(x + at * step, mask=at < n, other=1.0))
    sign = tl.load(y + at, mask=at < n, other=1.0)
    negative = (sign < 0.0) | ((sign == 0.0) & (1.0 / sign < 0.0))
    tl.store(z + at, 1.0 / tl.where(negative, -size, size), mask=at < n)


def copy_sign(x, y):
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    copy_sign_kernel[(triton.cdiv(x.numel(), 256),)](x, y, z, x.numel(), x.stride(0), BLOCK=256)
    return z
