import torch
from liger_kernel.ops.kl_div import _kldiv_kernel_forward


def kl_div(y, t):
    loss = torch.empty(y.shape[0], dtype=torch.float32, device=y.device)
    _kldiv_kernel_forward[(y.shape[0],)](
        y, y.stride(0), t, t.stride(0), loss, 1, y.shape[1], 1e-10, BLOCK_SIZE=1024, log_target=False, reduction=1
    )
    return loss
