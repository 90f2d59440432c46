"""Sum of a vector."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 16)


@operator(x=tensor(N), workloads=[workload(N=10_000)])
def total(x: torch.Tensor) -> torch.Tensor:
    return x.sum()
