"""A matrix transposed, plus another."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 2048), Dim("N", 1, 2048)


@operator(
    x=tensor(M, N, layouts=("contiguous", "transposed", "rows sliced")),
    y=tensor(N, M, layouts=("contiguous", "stepped")),
    workloads=[workload(M=64, N=64)],
)
def transpose_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.T + y
