"""Right: partial sums in a workspace that is kept and never cleared; cells are written before they are read."""

import torch
import triton
import triton.language as tl

_kept = {}


@triton.jit
def partial_kernel(x, partial, n, blocks, BLOCK: tl.constexpr):
    row, block = tl.program_id(0), tl.program_id(1)
    columns = block * BLOCK + tl.arange(0, BLOCK)
    tl.store(partial + row * blocks + block, tl.sum(tl.load(x + row * n + columns, mask=columns < n, other=0.0), 0))


@triton.jit
def total_kernel(partial, totals, blocks, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    tl.store(totals + row, tl.sum(tl.load(partial + row * blocks + columns, mask=columns < blocks, other=0.0), 0))


def row_sum(x):
    rows, n = x.shape
    blocks = triton.cdiv(n, 64)
    if (rows, n) not in _kept:
        _kept[rows, n] = torch.empty(rows, blocks, device=x.device)
    partial, totals = _kept[rows, n], torch.empty(rows, device=x.device)
    partial_kernel[(rows, blocks)](x, partial, n, blocks, BLOCK=64)
    total_kernel[(rows,)](partial, totals, blocks, BLOCK=triton.next_power_of_2(blocks))
    return totals
