"""Right: gate first, then value, rounded once at the end."""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(x, y, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = columns < n
    gate = tl.load(x + row * stride + columns, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(x + row * stride + n + columns, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row * n + columns, gate * tl.sigmoid(gate) * value, mask=inside)


def swiglu(x):
    rows, n = x.shape[0], x.shape[1] // 2
    y = torch.empty(rows, n, dtype=x.dtype, device=x.device)
    swiglu_kernel[(rows, triton.cdiv(n, 128))](x, y, n, x.stride(0), BLOCK=128)
    return y
