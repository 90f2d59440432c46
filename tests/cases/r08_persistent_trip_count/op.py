"""Row sum over many rows."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 1_000_000), Dim("N", 1, 1024)


@operator(x=tensor(M, N), workloads=[workload(M=64, N=16)])
def row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=1)
