"""Wrong: 32 programs of eight rounds each reach 65,536 elements and no further."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_shift_kernel(x, y, n, step, a, BLOCK: tl.constexpr):
    for i in range(8):
        at = (i * 32 + tl.program_id(0)) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + at * step, mask=at < n, other=0.0).to(tl.float32)
        tl.store(y + at, a * value + 1.0, mask=at < n)


def scale_shift(x, a):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel():
        scale_shift_kernel[(32,)](x, y, x.numel(), x.stride(0), a, BLOCK=256)
    return y
