"""Rows of a table by index (embedding lookup).

One program per index and block of columns; the row's address is computed in int64, since a table may hold more than
2**31 elements. Use this form for gathers of whole rows: embeddings, paged caches, token permutation.
"""

import torch
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((256, 2), (1024, 4), (4096, 8))],
    key=["n"],
)
@triton.jit
def embedding_block(ids_ptr, table_ptr, y_ptr, ids_step, table_row, table_col, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.load(ids_ptr + at * ids_step).to(tl.int64)
    values = tl.load(table_ptr + row * table_row + cols * table_col, mask=cols < n)
    tl.store(y_ptr + at * n + cols, values, mask=cols < n)


def embedding(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    m, n = ids.shape[0], table.shape[1]
    y = torch.empty((m, n), dtype=table.dtype, device=table.device)
    embedding_block[lambda meta: (m, triton.cdiv(n, meta["BLOCK"]))](
        ids, table, y, ids.stride(0), table.stride(0), table.stride(1), n
    )
    return y
