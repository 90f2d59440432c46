"""Row sum."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 65536)


def magnitude(x: torch.Tensor) -> torch.Tensor:
    return x.double().abs().sum(1)


@operator(x=tensor(M, N), bound=magnitude, workloads=[workload(M=2, N=64)])
def row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=1)
