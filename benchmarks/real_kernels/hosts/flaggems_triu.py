import torch
import triton
import triton.language as tl
from flag_gems.ops.triu import triu_kernel

tle = tl  # theirs casts program ids to int64


def triu(x):
    y = torch.empty_like(x)
    triu_kernel[(triton.cdiv(x.shape[0], 8),)](x, y, x.shape[0], x.shape[1], 0, M_BLOCK_SIZE=8, N_BLOCK_SIZE=256)
    return y
