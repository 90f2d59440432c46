import torch
from python.tutorials.layer_norm import _layer_norm_fwd_fused


def layer_norm(x, w, b):
    y = torch.empty_like(x)
    mean, scale = (torch.empty(x.shape[0], dtype=torch.float32, device=x.device) for _ in range(2))
    _layer_norm_fwd_fused[(x.shape[0],)](x, y, w, b, mean, scale, x.stride(0), x.shape[1], 1e-5, BLOCK_SIZE=1024)
    return y
