import torch
import triton
import triton.language as tl
from flag_gems.ops.mm import mm_kernel_general

tle = tl  # theirs casts program ids to int64


def matmul(a, b):
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    mm_kernel_general[(triton.cdiv(m, 32) * triton.cdiv(n, 32),)](
        a,
        b,
        out,
        m,
        n,
        k,
        a.stride(0),
        a.stride(1),
        b.stride(0),
        b.stride(1),
        out.stride(0),
        out.stride(1),
        BLOCK_M=32,
        BLOCK_N=32,
        BLOCK_K=32,
        GROUP_M=8,
    )
    return out
