"""Standard deviation of each row, over the whole population."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 2048), Dim("N", 1, 8192)


@operator(x=tensor(M, N), workloads=[workload(M=8, N=512)])
def deviation(x: torch.Tensor) -> torch.Tensor:
    return x.std(dim=1, correction=0)
