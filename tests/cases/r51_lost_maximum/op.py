"""The largest element of a vector of finite numbers."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 16)


@operator(x=tensor(N, low=-1000.0, high=1000.0), workloads=[workload(N=10_000)])
def highest(x: torch.Tensor) -> torch.Tensor:
    return x.amax()
