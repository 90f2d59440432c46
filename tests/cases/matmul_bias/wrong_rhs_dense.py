"""Wrong: takes b for row-major."""

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a, b, bias, c, M, K, N, SIZE: tl.constexpr):
    rows = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    columns = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    total = tl.zeros((SIZE, SIZE), dtype=tl.float32)
    for start in range(0, K, SIZE):
        inner = start + tl.arange(0, SIZE)
        left = tl.load(a + rows[:, None] * K + inner, mask=(rows[:, None] < M) & (inner < K), other=0.0)
        place = b + inner[:, None] * N + columns
        right = tl.load(place, mask=(inner[:, None] < K) & (columns < N), other=0.0)
        total += tl.dot(left, right, input_precision="ieee")
    total += tl.load(bias + columns, mask=columns < N, other=0.0)
    tl.store(c + rows[:, None] * N + columns, total, mask=(rows[:, None] < M) & (columns < N))


def matmul_bias(a, b, bias):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, 32), triton.cdiv(n, 32))
    matmul_kernel[grid](a, b, bias, c, m, k, n, SIZE=32)
    return c
