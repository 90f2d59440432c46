import torch
import triton
import triton.language as tl
from flag_gems.ops.addmm import addmm_kernel

tle = tl  # theirs casts program ids to int64


def addmm(c, a, b):
    m, k = a.shape
    n = b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)
    addmm_kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32))](
        a,
        b,
        c,
        out,
        1.0,
        1.0,
        m,
        n,
        k,
        a.stride(0),
        a.stride(1),
        b.stride(0),
        b.stride(1),
        c.stride(0),
        c.stride(1),
        out.stride(0),
        out.stride(1),
        BLOCK_SIZE_M=32,
        BLOCK_SIZE_N=32,
        BLOCK_SIZE_K=32,
    )
    return out
