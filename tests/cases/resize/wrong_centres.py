"""Wrong: aligns centres instead of corners."""

import torch
import triton
import triton.language as tl


@triton.jit
def resize_kernel(x, y, n, wide, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    place = tl.maximum((at + 0.5) * n / wide - 0.5, 0.0)
    left = place.to(tl.int32)
    right = tl.minimum(left + 1, n - 1)
    share = place - left
    a = tl.load(x + row * n + left, mask=at < wide).to(tl.float32)
    b = tl.load(x + row * n + right, mask=at < wide).to(tl.float32)
    tl.store(y + row * wide + at, a + (b - a) * share, mask=at < wide)


def resize(x):
    m, n = x.shape
    y = torch.empty(m, 2 * n - 1, dtype=torch.float32, device=x.device)
    resize_kernel[(m, triton.cdiv(2 * n - 1, 128))](x, y, n, 2 * n - 1, BLOCK=128)
    return y
