"""Right: squares and adds in float32."""

import torch
import triton
import triton.language as tl


@triton.jit
def tiny_norm_kernel(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    value = tl.load(x + row * n + columns, mask=columns < n, other=0.0).to(tl.float32)
    tl.store(y + row, tl.sqrt(tl.sum(value * value, 0)))


def tiny_norm(x):
    rows, n = x.shape
    y = torch.empty(rows, dtype=torch.float32, device=x.device)
    tiny_norm_kernel[(rows,)](x, y, n, BLOCK=triton.next_power_of_2(n))
    return y
