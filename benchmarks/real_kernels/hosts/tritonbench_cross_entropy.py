import torch
import triton
from data.TritonBench_G_v1.fast_ce_loss import _cross_entropy_forward
from triton.language.extra.libdevice import tanh

triton_tanh = tanh


def cross_entropy(x, label):
    loss, total = (torch.empty(x.shape[0], dtype=torch.float32, device=x.device) for _ in range(2))
    _cross_entropy_forward[(x.shape[0],)](
        x,
        x.stride(0),
        loss,
        total,
        label,
        VOCAB_SIZE=x.shape[1],
        BLOCK_SIZE=triton.next_power_of_2(x.shape[1]),
        DO_SOFTCAPPING=False,
        SOFTCAP=0.0,
        DO_LOGIT_SCALING=False,
        LOGIT_SCALE=0.0,
    )
    return loss
