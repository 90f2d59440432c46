import torch
import triton
import triton.language as tl
from flag_gems.ops.argmax import argmax_kernel

tle = tl  # theirs casts program ids to int64


def argmax(x):
    y = torch.empty(x.shape[0], dtype=torch.int64, device=x.device)
    argmax_kernel[(triton.cdiv(x.shape[0], 8), 1)](x, y, x.shape[0], x.shape[1], 1, BLOCK_M=8, BLOCK_N=256)
    return y
