"""Sum of each row."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 64), Dim("N", 1, 4096)


@operator(x=tensor(M, N), workloads=[workload(M=8, N=96)])
def row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=1)
