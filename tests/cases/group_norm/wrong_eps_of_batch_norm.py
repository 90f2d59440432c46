"""Wrong: another eps, which shows where values hardly differ."""

import torch
import triton
import triton.language as tl


@triton.jit
def group_norm_kernel(x, y, size, BLOCK: tl.constexpr):
    here = tl.program_id(0) * size
    at = tl.arange(0, BLOCK)
    value = tl.load(x + here + at, mask=at < size, other=0.0)
    mean = tl.sum(value, 0) / size
    centred = tl.where(at < size, value - mean, 0.0)
    variance = tl.sum(centred * centred, 0) / size
    tl.store(y + here + at, centred * tl.rsqrt(variance + 1e-3), mask=at < size)


def group_norm(x, groups):
    y = torch.empty_like(x)
    size = x.shape[1] // groups * x.shape[2]
    group_norm_kernel[(x.shape[0] * groups,)](x, y, size, BLOCK=triton.next_power_of_2(size))
    return y
