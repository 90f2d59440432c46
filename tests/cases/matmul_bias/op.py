"""Matrix product plus a bias per column."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, K, N = Dim("M", 1, 1024), Dim("K", 1, 1024), Dim("N", 1, 1024)


@operator(
    a=tensor(M, K, dtypes=("float32", "float16")),
    b=tensor(K, N, dtypes="same as a", layouts=("contiguous", "transposed")),
    bias=tensor(N, dtypes="same as a"),
    workloads=[workload(M=64, K=64, N=64, a="float32")],
)
def matmul_bias(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return a @ b + bias
