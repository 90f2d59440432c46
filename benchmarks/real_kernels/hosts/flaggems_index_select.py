import torch
import triton
import triton.language as tl
from flag_gems.ops.index_select import index_select_kernel

tle = tl  # theirs casts program ids to int64


def index_select(x, index):
    y = torch.empty((x.shape[0], index.shape[0]), dtype=x.dtype, device=x.device)
    index_select_kernel[(triton.cdiv(x.shape[0], 8), triton.cdiv(index.shape[0], 64))](
        x, y, x.shape[0], x.shape[1], index, index.shape[0], BLOCK_M=8, BLOCK_N=64
    )
    return y
