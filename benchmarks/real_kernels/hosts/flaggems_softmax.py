import torch
import triton
import triton.language as tl
from flag_gems.ops.softmax import softmax_kernel_inner

tle = tl  # theirs casts program ids to int64


def softmax(x):
    y = torch.empty_like(x)
    one = x.shape[1] <= 1024
    softmax_kernel_inner[(x.shape[0], 1, 1)](
        y, x, x.shape[0], x.shape[1], TILE_N=triton.next_power_of_2(x.shape[1]) if one else 1024, ONE_TILE_PER_CTA=one
    )
    return y
