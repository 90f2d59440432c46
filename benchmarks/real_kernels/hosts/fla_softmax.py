import torch
import triton
import triton.language as tl
from fla.ops.utils.softmax import softmax_fwd_kernel


@triton.jit
def exp(x):
    return tl.exp(x.to(tl.float32))


def softmax(x):
    y = torch.empty_like(x)
    softmax_fwd_kernel[(x.shape[0],)](x, y, D=x.shape[1], B=triton.next_power_of_2(x.shape[1]))
    return y
