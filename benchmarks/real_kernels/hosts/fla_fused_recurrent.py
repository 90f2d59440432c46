import torch
import triton
from fla.ops.common.fused_recurrent import fused_recurrent_fwd_kernel
from triton.language import exp as exp


def linear_recurrence(q, k, v):
    batch, length, heads, size = q.shape
    out = torch.empty_like(v)
    block = triton.next_power_of_2(size)
    fused_recurrent_fwd_kernel[(batch * heads * triton.cdiv(size, 16),)](
        q,
        k,
        v,
        None,
        None,
        None,
        None,
        out,
        None,
        None,
        None,
        1.0,
        batch,
        length,
        H=heads,
        K=size,
        V=size,
        BK=block,
        BV=16,
        REVERSE=False,
        USE_G=False,
        USE_G_GAMMA=False,
        USE_GK=False,
        USE_GV=False,
        USE_INITIAL_STATE=False,
        STORE_FINAL_STATE=False,
        IS_VARLEN=False,
        STATE_V_FIRST=False,
    )
    return out
