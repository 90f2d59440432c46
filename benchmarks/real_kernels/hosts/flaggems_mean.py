import torch
import triton
import triton.language as tl
from flag_gems.ops.mean import mean_dim_kernel

tle = tl  # theirs casts program ids to int64


def row_mean(x):
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    mean_dim_kernel[(triton.cdiv(x.shape[0], 8),)](x, y, x.shape[0], x.shape[1], BLOCK_M=8, BLOCK_N=256)
    return y
