import torch
from data.TritonBench_G_v1.rmsnorm_fused import rms_norm_fwd_fused


def plain_rms_norm(x, w):
    y = torch.empty_like(x)
    rms_norm_fwd_fused[(x.shape[0],)](x, y, w, x.stride(0), x.shape[1], 1e-6, BLOCK_SIZE=1024)
    return y
