"""Variance and mean of each row."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 2, 8192)


@operator(
    x=tensor(M, N),
    workloads=[workload(M=64, N=1000)],
)
def var_mean(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.var_mean(x, dim=-1, correction=1)
