import torch
from liger_kernel.ops.tvd import _tv_distance_kernel


def tvd(p, q):
    loss, grads = torch.empty(p.shape[0], dtype=torch.float32, device=p.device), torch.empty_like(p)
    _tv_distance_kernel[(p.shape[0],)](
        p,
        p.stride(0),
        q,
        q.stride(0),
        loss,
        1,
        grads,
        grads.stride(0),
        loss,
        -100,
        p.shape[1],
        1.0,
        BLOCK_SIZE=1024,
        HAS_LABEL=False,
        reduction=1,
    )
    return loss
