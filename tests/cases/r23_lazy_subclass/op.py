"""Square plus one."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)


@operator(x=tensor(N), workloads=[workload(N=700)])
def square_plus(x: torch.Tensor) -> torch.Tensor:
    return x * x + 1.0
