"""Row softmax; rows may lie further apart than they are wide."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 8192)


@operator(x=tensor(M, N, layouts=("contiguous", "rows sliced")), workloads=[workload(M=6, N=100)])
def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)
