"""Kullback-Leibler divergence of each row: predictions are logarithms, targets are probabilities."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 8192)


@operator(
    y=tensor(M, N, low=-20.0, high=0.0),
    t=tensor(M, N, low=0.0, high=1.0),
    workloads=[workload(M=64, N=1000)],
)
def kl_div(y: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.kl_div(y, t, reduction="none").sum(-1)
