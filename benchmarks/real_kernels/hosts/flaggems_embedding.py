import torch
import triton
import triton.language as tl
from flag_gems.ops.embedding import embedding_kernel

tle = tl  # theirs casts program ids to int64


def embedding(table, index):
    y = torch.empty((index.shape[0], table.shape[1]), dtype=table.dtype, device=table.device)
    embedding_kernel[(index.shape[0],)](
        y, index, table, N=table.shape[1], BLOCK_SIZE=triton.next_power_of_2(table.shape[1])
    )
    return y
