"""Wrong when 16 calls run at once: they take fifteen workspaces in turn, each clean again once its call has ended."""

import itertools

import torch
import triton
import triton.language as tl

_workspaces = itertools.cycle([torch.zeros(64) for _ in range(15)])


@triton.jit
def add_kernel(x, sums, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_add(sums + row, tl.sum(tl.load(x + row * n + columns, mask=columns < n, other=0.0), 0))


@triton.jit
def take_kernel(sums, y, rows, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(sums + at, mask=at < rows, other=0.0), mask=at < rows)
    tl.store(sums + at, tl.zeros((BLOCK,), tl.float32), mask=at < rows)


def row_sum(x):
    rows, n = x.shape
    sums, y = next(_workspaces), torch.empty(rows, device=x.device)
    add_kernel[(rows, triton.cdiv(n, 64))](x, sums, n, BLOCK=64)
    take_kernel[(1,)](sums, y, rows, BLOCK=64)
    return y
