"""Products of two batches of matrices."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, M, N, K = Dim("B", 1, 16), Dim("M", 1, 256), Dim("N", 1, 256), Dim("K", 1, 1024)


@operator(
    a=tensor(B, M, K, dtypes=("float16", "bfloat16", "float32")),
    b=tensor(B, K, N, dtypes="same as a"),
    workloads=[workload(B=3, M=64, N=96, K=128, a="float16")],
)
def bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.bmm(a, b)
