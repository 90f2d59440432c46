"""A vector less its mean."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 16)


@operator(x=tensor(N), workloads=[workload(N=1000)])
def centre(x: torch.Tensor) -> torch.Tensor:
    return x - x.mean()
