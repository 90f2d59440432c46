"""Wrong: running sums in float16."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a, b, out, m, n, k, share, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(2) * share
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float16)
    for start in range(first, first + share, STEP):
        at = start + tl.arange(0, STEP)
        left = tl.load(a + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0)
        right = tl.load(
            b + at[:, None] * n + columns[None, :], mask=(at[:, None] < k) & (columns[None, :] < n), other=0.0
        )
        acc += tl.dot(left, right, input_precision="ieee").to(tl.float16)
    there = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out + rows[:, None] * n + columns[None, :], acc.to(tl.float32), mask=there)


def matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    parts = 1
    share = triton.cdiv(triton.cdiv(k, parts), 32) * 32
    out = torch.zeros((m, n), dtype=torch.float32, device=a.device)
    matmul_kernel[(triton.cdiv(m, 16), triton.cdiv(n, 16), parts)](a, b, out, m, n, k, share, BLOCK=16, STEP=32)
    return out
