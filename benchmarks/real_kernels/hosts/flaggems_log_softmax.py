import torch
import triton
import triton.language as tl
from flag_gems.ops.log_softmax import log_softmax_kernel

tle = tl  # theirs casts program ids to int64


def log_softmax(x):
    y = torch.empty_like(x)
    log_softmax_kernel[(triton.cdiv(x.shape[0], 8), 1)](y, x, x.shape[0], x.shape[1], 1, BLOCK_M=8, BLOCK_N=256)
    return y
