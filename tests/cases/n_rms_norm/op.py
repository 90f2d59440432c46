"""RMSNorm as Hugging Face has it: rounded to the input's dtype before the weight is multiplied."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 1024), Dim("N", 1, 8192)


@operator(
    x=tensor(M, N, dtypes=("bfloat16", "float16", "float32")),
    w=tensor(N, dtypes="same as x"),
    workloads=[workload(M=64, N=1024, x="bfloat16")],
)
def rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w
