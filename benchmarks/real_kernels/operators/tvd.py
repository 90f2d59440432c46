"""Total variation distance of each row."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 8192)


@operator(
    p=tensor(M, N, low=0.0, high=1.0),
    q=tensor(M, N, low=0.0, high=1.0),
    workloads=[workload(M=64, N=1000)],
)
def tvd(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return 0.5 * (p - q).abs().sum(-1)
