"""Sum of each row."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 8192)


@operator(x=tensor(M, N), workloads=[workload(M=64, N=1000)])
def row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=1)
