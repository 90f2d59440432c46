"""Wrong: holds the tuned number instead of the caller's."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_shift_kernel(x, y, n, step, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at * step, mask=at < n, other=0.0).to(tl.float32)
    tl.store(y + at, 0.5 * value + 1.0, mask=at < n)


def scale_shift(x, a):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        scale_shift_kernel[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), x.stride(0), BLOCK=256)
    return y
