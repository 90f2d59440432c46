"""Right: multiplies by a reciprocal where the reference divides, so boundaries may fall the other way."""

import torch
import triton
import triton.language as tl


@triton.jit
def quantise_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + columns, mask=columns < n, other=0.0)
    scaled = value * (127.0 / tl.max(tl.abs(value), 0))
    below = tl.floor(scaled)
    rest = scaled - below
    odd = (below.to(tl.int32) & 1) == 1
    nearest = tl.where((rest > 0.5) | ((rest == 0.5) & odd), below + 1.0, below)
    tl.store(y + row * n + columns, nearest.to(tl.int8), mask=columns < n)


def quantise(x):
    rows, n = x.shape
    y = torch.empty(rows, n, dtype=torch.int8, device=x.device)
    quantise_kernel[(rows,)](x, y, n, BLOCK=triton.next_power_of_2(n))
    return y
