import torch
import triton
import triton.language as tl
from flag_gems.ops.bmm import bmm_kernel

tle = tl  # theirs casts program ids to int64


def bmm(a, b):
    batch, m, k = a.shape
    n = b.shape[2]
    out = torch.empty((batch, m, n), dtype=a.dtype, device=a.device)
    bmm_kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32), batch)](
        a,
        b,
        out,
        m,
        n,
        k,
        TILE_M=32,
        TILE_N=32,
        TILE_K=32,
        GROUP_M=1,
        DIVISIBLE_M=m % 32 == 0,
        DIVISIBLE_N=n % 32 == 0,
        DIVISIBLE_K=k % 32 == 0,
    )
    return out
