"""Wrong: counts itself in before it has left its part."""

import torch
import triton
import triton.language as tl


@triton.jit
def column_mean_kernel(x, sums, arrived, y, m, n, HEIGHT: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for i in range(HEIGHT):
        row = tl.program_id(0) * HEIGHT + i
        total += tl.load(x + row * n + columns, mask=(row < m) & (columns < n), other=0.0).to(tl.float32)
    order = tl.atomic_add(arrived, 1, sem="acq_rel")
    tl.store(sums + tl.program_id(0) * n + columns, total, mask=columns < n)
    if order == tl.num_programs(0) - 1:
        whole = tl.zeros((BLOCK,), dtype=tl.float32)
        for part in range(tl.num_programs(0)):
            whole += tl.load(sums + part * n + columns, mask=columns < n, other=0.0)
        tl.store(y + columns, whole / m, mask=columns < n)


def column_mean(x):
    m, n = x.shape
    parts = triton.cdiv(m, 32)
    sums = torch.empty(parts, n, device=x.device)
    arrived = torch.zeros((), dtype=torch.int32, device=x.device)
    y = torch.empty(n, dtype=torch.float32, device=x.device)
    column_mean_kernel[(parts,)](x, sums, arrived, y, m, n, HEIGHT=32, BLOCK=triton.next_power_of_2(n))
    return y
