import torch
import triton
import triton.language as tl
from flag_gems.ops.rms_norm import rms_norm_kernel

tle = tl  # theirs casts program ids to int64


def plain_rms_norm(x, w):
    y, scale = torch.empty_like(x), torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    rms_norm_kernel[(x.shape[0],)](
        y,
        scale,
        x,
        w,
        y.stride(0),
        y.stride(1),
        x.stride(0),
        x.stride(1),
        x.shape[1],
        1e-6,
        BLOCK_SIZE=triton.next_power_of_2(x.shape[1]),
    )
    return y
