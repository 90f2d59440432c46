"""A multiple, of numbers of any size."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 65536)


@operator(x=tensor(N), workloads=[workload(N=5000)])
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 0.3
