"""Wrong: one pass over values shifted by the first of the row; where that one is far from the rest, they cancel."""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x, weight, bias, y, n, eps, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    value = tl.load(x + row * n + columns, mask=inside, other=0.0).to(tl.float32)
    shifted = tl.where(inside, value - tl.load(x + row * n).to(tl.float32), 0.0)
    offset = tl.sum(shifted, 0) / n
    variance = tl.maximum(tl.sum(shifted * shifted, 0) / n - offset * offset, 0.0)
    mean = tl.load(x + row * n).to(tl.float32) + offset
    result = (value - mean) * tl.rsqrt(variance + eps) * tl.load(weight + columns, mask=inside).to(tl.float32)
    if HAS_BIAS:
        result += tl.load(bias + columns, mask=inside).to(tl.float32)
    tl.store(y + row * n + columns, result, mask=inside)


def layer_norm(x, weight, bias, eps):
    rows, n = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n)
    layer_norm_kernel[(rows,)](x, weight, bias, y, n, eps, HAS_BIAS=bias is not None, BLOCK=block)
    return y
