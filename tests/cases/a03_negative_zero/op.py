"""ReLU; NaN and infinities may occur."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)


@operator(x=tensor(N, values="any"), workloads=[workload(N=500)])
def relu(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x)
