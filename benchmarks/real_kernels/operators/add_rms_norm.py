"""The sum of two tensors, and its RMSNorm as Llama has it."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 8192)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(M, N, dtypes=FLOATS),
    r=tensor(M, N, dtypes="same as x"),
    w=tensor(N, dtypes="same as x"),
    workloads=[workload(M=64, N=1000, x="float32"), workload(M=33, N=2048, x="bfloat16")],
)
def add_rms_norm(x: torch.Tensor, r: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    total = x + r
    wide = total.float()
    normed = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return normed.to(x.dtype) * w, total
