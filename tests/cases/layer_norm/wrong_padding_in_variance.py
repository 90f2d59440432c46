"""Wrong: lanes past the row add the square of the mean to the variance."""

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x, weight, bias, y, n, eps, HAS_BIAS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    value = tl.load(x + row * n + columns, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(value, 0) / n
    variance = tl.sum((value - mean) * (value - mean), 0) / n
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
