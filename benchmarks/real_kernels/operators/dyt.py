"""Dynamic tanh: weight * tanh(alpha * x) + bias."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 8192)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(M, N, dtypes=FLOATS),
    alpha=tensor(1, dtypes="same as x"),
    w=tensor(N, dtypes="same as x"),
    b=tensor(N, dtypes="same as x"),
    workloads=[workload(M=64, N=1000, x="float32"), workload(M=33, N=2048, x="bfloat16")],
)
def dyt(x: torch.Tensor, alpha: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (w.float() * torch.tanh(alpha.float() * x.float()) + b.float()).to(x.dtype)
