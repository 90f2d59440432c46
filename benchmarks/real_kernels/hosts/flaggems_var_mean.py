import torch
import triton
import triton.language as tl
from flag_gems.ops.var_mean import var_mean_welford_kernel

tle = tl  # theirs casts program ids to int64


def var_mean(x):
    var, mean = (torch.empty(x.shape[0], dtype=x.dtype, device=x.device) for _ in range(2))
    var_mean_welford_kernel[(triton.cdiv(x.shape[0], 8),)](
        x, var, mean, x.shape[0], x.shape[1], 1, BLOCK_M=8, BLOCK_N=256
    )
    return var, mean
