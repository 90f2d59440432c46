"""Sum of each column."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 256)


def magnitude(x: torch.Tensor) -> torch.Tensor:
    return x.double().abs().sum(0)


@operator(x=tensor(M, N), bound=magnitude, workloads=[workload(M=8, N=64)])
def column_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=0)
