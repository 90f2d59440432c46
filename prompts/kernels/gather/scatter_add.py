"""Rows added into a table by index, duplicates allowed (graph aggregation, embedding gradients).

On a GPU one program takes one incoming row and a block of columns, and duplicates meet in atomic adds, whose order, and
therefore last bits, may differ from call to call. On the CPU atomics cost far more than additions: there one program
owns a block of columns and adds all rows in order, so that no two programs touch one element. Use the first form for
scatter reductions with many processors, the second for few; the second is also bitwise reproducible.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((128, 1), (256, 2), (512, 4))],
    key=["n"],
    restore_value=["out_ptr"],
)
@triton.jit
def scatter_add_atomic(index_ptr, rows_ptr, out_ptr, index_step, rows_row, rows_col, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    to = tl.load(index_ptr + at * index_step).to(tl.int64)
    values = tl.load(rows_ptr + at * rows_row + cols * rows_col, mask=cols < n, other=0.0)
    tl.atomic_add(out_ptr + to * n + cols, values, mask=cols < n, sem="relaxed")


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=1, num_stages=1) for b in (16, 32, 64, 128)],
    key=["n"],
    restore_value=["out_ptr"],
)
@triton.jit
def scatter_add_owned(index_ptr, rows_ptr, out_ptr, index_step, rows_row, rows_col, m, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for row in range(m):
        at = row.to(tl.int64)
        to = tl.load(index_ptr + at * index_step).to(tl.int64)
        values = tl.load(rows_ptr + at * rows_row + cols * rows_col, mask=cols < n, other=0.0)
        out = out_ptr + to * n + cols
        tl.store(out, tl.load(out, mask=cols < n, other=0.0) + values, mask=cols < n)


def scatter_add(base: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = base.clone(memory_format=torch.contiguous_format)
    m, n = rows.shape
    strides = index.stride(0), rows.stride(0), rows.stride(1)
    if rows.device.type == "cpu":
        scatter_add_owned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](index, rows, out, *strides, m, n)
    else:
        scatter_add_atomic[lambda meta: (m, triton.cdiv(n, meta["BLOCK"]))](index, rows, out, *strides, n)
    return out
