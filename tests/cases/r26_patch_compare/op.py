"""Hyperbolic tangent."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)


@operator(x=tensor(N), workloads=[workload(N=300)])
def squash(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x)
