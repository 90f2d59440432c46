"""Lower triangle of a square matrix."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 4096)


@operator(x=tensor(N, N), workloads=[workload(N=33)])
def lower(x: torch.Tensor) -> torch.Tensor:
    return torch.tril(x)
