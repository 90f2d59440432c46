"""Rows added into a table by index, duplicates allowed (graph aggregation, embedding gradients).

One program per incoming row and block of columns; duplicates meet in atomic adds, whose order, and therefore last bits,
may differ from call to call. Use this form for scatter reductions whose indices are not sorted.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((128, 1), (256, 2), (512, 4), (1024, 4))],
    key=["n"],
    restore_value=["out_ptr"],
)
@triton.jit
def scatter_add_block(index_ptr, rows_ptr, out_ptr, index_step, rows_row, rows_col, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    to = tl.load(index_ptr + at * index_step).to(tl.int64)
    values = tl.load(rows_ptr + at * rows_row + cols * rows_col, mask=cols < n, other=0.0)
    tl.atomic_add(out_ptr + to * n + cols, values, mask=cols < n, sem="relaxed")


def scatter_add(base: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    out = base.clone(memory_format=torch.contiguous_format)
    m, n = rows.shape
    scatter_add_block[lambda meta: (m, triton.cdiv(n, meta["BLOCK"]))](
        index, rows, out, index.stride(0), rows.stride(0), rows.stride(1), n
    )
    return out
