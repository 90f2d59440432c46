"""Sums of long rows, in float32."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 64), Dim("N", 1, 65536)


@operator(
    x=tensor(M, N, dtypes=("float32", "float16")),
    workloads=[workload(M=16, N=40_999, x="float32"), workload(M=4, N=1024, x="float16")],
)
def row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.float().sum(-1)
