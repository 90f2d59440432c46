import torch
from liger_kernel.ops.softmax import _softmax_multi_block_forward_kernel


def softmax(x):
    y = torch.empty_like(x)
    _softmax_multi_block_forward_kernel[(x.shape[0],)](y, y.stride(0), x, x.stride(0), x.shape[1], BLOCK_SIZE=1024)
    return y
