"""RMS norm as in Hugging Face models: normalised in float32, rounded, then times the weight."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

M, N = Dim("M", 1, 1024), Dim("N", 1, 4096)


@operator(
    x=tensor(M, N, dtypes=("bfloat16", "float16", "float32")),
    weight=tensor(N, dtypes="same as x"),
    eps=scalar(float, 1e-6, 1e-5),
    workloads=[workload(M=8, N=256, x="bfloat16", eps=1e-6)],
)
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.float()
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)).to(x.dtype)
