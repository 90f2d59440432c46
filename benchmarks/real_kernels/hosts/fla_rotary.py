import torch
import triton
from fla.modules.rotary import rotary_embedding_kernel


def rope(x, cos, sin):
    batch, length, heads, size = x.shape
    y = torch.empty_like(x)
    rotary_embedding_kernel[(triton.cdiv(length, 32), batch, heads)](
        x,
        cos,
        sin,
        y,
        None,
        None,
        0,
        length,
        B=batch,
        H=heads,
        D=size,
        R=size // 2,
        TR=length,
        BT=32,
        BD=triton.next_power_of_2(size),
        IS_SEQLEN_OFFSETS_TENSOR=False,
        IS_VARLEN=False,
        INTERLEAVED=False,
        CONJUGATE=False,
    )
    return y
