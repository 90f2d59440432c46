"""Wrong: squares in the dtype of x, which overflows in float16."""

import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_kernel(x, weight, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    normal = value * tl.rsqrt(tl.sum((value * value).to(x.dtype.element_ty), 0).to(tl.float32) / n + eps)
    scale = tl.load(weight + columns, mask=columns < n)
    tl.store(y + row * n + columns, normal.to(x.dtype.element_ty) * scale, mask=columns < n)


def rms_norm(x, weight, eps):
    y = torch.empty_like(x)
    rms_norm_kernel[(x.shape[0],)](x, weight, y, x.shape[1], eps, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
