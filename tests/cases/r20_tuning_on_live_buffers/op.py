"""Scales in place."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

N = Dim("N", 1, 1 << 20)


@operator(x=tensor(N), s=scalar(float, 0.5, 2.0), mutates=("x",), workloads=[workload(N=1000, s=2.0)])
def scale_(x: torch.Tensor, s: float) -> torch.Tensor:
    return x.mul_(s)
