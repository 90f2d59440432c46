import torch
import triton
from python.tutorials.fused_softmax import softmax_kernel


def softmax_rows(x):
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    programs = min(64, x.shape[0])
    softmax_kernel[(programs, 1, 1)](
        y,
        x,
        x.stride(0),
        y.stride(0),
        x.shape[0],
        x.shape[1],
        BLOCK_SIZE=triton.next_power_of_2(x.shape[1]),
        num_stages=2,
    )
    return y
