"""Twice the sine; the caller may change x in place between calls."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)


@operator(x=tensor(N), workloads=[workload(N=1000)])
def double_sine(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * 2.0
