"""Product of two matrices."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N, K = Dim("M", 1, 1024), Dim("N", 1, 1024), Dim("K", 1, 4096)


@operator(
    a=tensor(M, K, dtypes=("float16", "bfloat16"), layouts=("contiguous", "transposed")),
    b=tensor(K, N, dtypes="same as a", layouts=("contiguous", "transposed")),
    workloads=[workload(M=128, N=96, K=256, a="float16")],
)
def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b
