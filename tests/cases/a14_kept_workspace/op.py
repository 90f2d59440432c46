"""Row sum; shapes change from call to call."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 1024), Dim("N", 1, 8192)


def magnitude(x: torch.Tensor) -> torch.Tensor:
    return x.double().abs().sum(1)


@operator(x=tensor(M, N), bound=magnitude, workloads=[workload(M=8, N=96)])
def row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=1)
