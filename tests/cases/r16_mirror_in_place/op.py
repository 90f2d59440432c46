"""Reverses a vector in place."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)


@operator(x=tensor(N), mutates=("x",), workloads=[workload(N=64)])
def reverse_(x: torch.Tensor) -> torch.Tensor:
    return x.copy_(x.flip(0))
