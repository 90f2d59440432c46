"""ReLU in place; x may be part of a larger tensor."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1_000_000)


@operator(x=tensor(N), mutates=("x",), workloads=[workload(N=1024)])
def relu_(x: torch.Tensor) -> torch.Tensor:
    return torch.relu_(x)
