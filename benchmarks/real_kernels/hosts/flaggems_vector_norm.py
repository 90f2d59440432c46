import torch
import triton
import triton.language as tl
from flag_gems.ops.vector_norm import l2_norm_kernel

tle = tl  # theirs casts program ids to int64


def row_l2(x):
    y = torch.empty(x.shape[0], dtype=x.dtype, device=x.device)
    l2_norm_kernel[(triton.cdiv(x.shape[0], 8),)](x, y, x.shape[0], x.shape[1], BLOCK_M=8, BLOCK_N=256)
    return y
