"""Row product of values around one."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 1024), Dim("N", 1, 512)


@operator(x=tensor(M, N, low=0.5, high=1.5), workloads=[workload(M=8, N=128)])
def row_product(x: torch.Tensor) -> torch.Tensor:
    return x.prod(dim=1)
