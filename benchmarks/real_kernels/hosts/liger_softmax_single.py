import torch
import triton
from liger_kernel.ops.softmax import _softmax_single_block_forward_kernel


def softmax(x):
    y = torch.empty_like(x)
    _softmax_single_block_forward_kernel[(x.shape[0],)](
        y, y.stride(0), x, x.stride(0), x.shape[1], BLOCK_SIZE=triton.next_power_of_2(x.shape[1])
    )
    return y
