"""Wrong: multiplies by the sign, which is none for zeros."""

import torch
import triton
import triton.language as tl


@triton.jit
def copy_sign_kernel(x, y, z, n, step, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    size = tl.abs(tl.load(x + at * step, mask=at < n, other=1.0))
    sign = tl.load(y + at, mask=at < n, other=1.0)
    tl.store(z + at, 1.0 / (size * tl.where(sign > 0.0, 1.0, tl.where(sign < 0.0, -1.0, sign))), mask=at < n)


def copy_sign(x, y):
    z = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    copy_sign_kernel[(triton.cdiv(x.numel(), 256),)](x, y, z, x.numel(), x.stride(0), BLOCK=256)
    return z
