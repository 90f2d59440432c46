import torch
import triton
import triton.language as tl
from fla.ops.utils.logsumexp import logsumexp_fwd_kernel


@triton.jit
def exp(x):
    return tl.exp(x.to(tl.float32))


@triton.jit
def log(x):
    return tl.log(x.to(tl.float32))


def logsumexp(x):
    z = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    logsumexp_fwd_kernel[(x.shape[0], 1)](
        x, z, 1.0, D=x.shape[1], B=triton.next_power_of_2(x.shape[1]), HAS_SCALE=False
    )
    return z
