import torch
import triton
from fla.modules.l2norm import l2norm_fwd_kernel1


def l2_norm(x):
    y, scale = torch.empty_like(x), torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
    l2norm_fwd_kernel1[(x.shape[0],)](x, y, scale, 1e-6, x.shape[1], BD=triton.next_power_of_2(x.shape[1]))
    return y
