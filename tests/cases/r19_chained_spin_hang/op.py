"""Prefix sum of a long vector."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 100_000_000)


def magnitude(x: torch.Tensor) -> torch.Tensor:
    return x.double().abs().cumsum(0)


@operator(x=tensor(N, low=0.0, high=1.0), bound=magnitude, workloads=[workload(N=64)])
def prefix_sum(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(0)
