"""A matrix plus the product of two."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N, K = Dim("M", 1, 1024), Dim("N", 1, 1024), Dim("K", 1, 4096)


@operator(
    c=tensor(M, N, dtypes="same as a"),
    a=tensor(M, K, dtypes=("float16", "bfloat16", "float32")),
    b=tensor(K, N, dtypes="same as a"),
    workloads=[workload(M=128, N=96, K=256, a="float16")],
)
def addmm(c: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.addmm(c, a, b)
