"""Row maximum; NaN and infinities may occur."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 8192)


@operator(x=tensor(M, N, values="any"), workloads=[workload(M=4, N=64)])
def row_max(x: torch.Tensor) -> torch.Tensor:
    return x.amax(dim=1)
