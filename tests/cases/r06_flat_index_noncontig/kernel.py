"""Wrong: one flat index for both; right by luck where their strides agree and are dense."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_add_kernel(x, y, z, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(z + at, tl.load(x + at, mask=inside) * 2.0 + tl.load(y + at, mask=inside), mask=inside)


def scale_add(x, y):
    z = torch.empty_like(x)
    scale_add_kernel[(triton.cdiv(x.numel(), 128),)](x, y, z, x.numel(), BLOCK=128)
    return z
