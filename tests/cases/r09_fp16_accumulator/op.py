"""Row sum in float16."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 1_000_000)


def magnitude(x: torch.Tensor) -> torch.Tensor:
    return x.double().abs().sum(1)


@operator(x=tensor(M, N, dtypes="float16"), bound=magnitude, workloads=[workload(M=3, N=64)])
def row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=1)
