"""Product of two matrices with float32 sums, of half or of single precision."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N, K = Dim("M", 1, 64), Dim("N", 1, 64), Dim("K", 1, 8192)


@operator(
    a=tensor(M, K, dtypes=("float16", "float32")),
    b=tensor(K, N, dtypes="same as a"),
    workloads=[workload(M=32, N=32, K=4096, a="float16"), workload(M=16, N=32, K=512, a="float32")],
)
def matmul(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.float() @ b.float()
