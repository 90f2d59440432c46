"""Square root of any values: NaN for negative ones."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)


@operator(x=tensor(N, values="any"), workloads=[workload(N=400)])
def root(x: torch.Tensor) -> torch.Tensor:
    return torch.sqrt(x)
