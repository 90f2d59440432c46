"""Each element plus up to W - 1 before it."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

M, N = Dim("M", 1, 256), Dim("N", 1, 1024)


@operator(
    x=tensor(M, N, low=-4.0, high=4.0),
    w=scalar(int, 1, 64),
    workloads=[workload(M=8, N=128, w=16)],
)
def window_sum(x: torch.Tensor, w: int) -> torch.Tensor:
    return torch.nn.functional.pad(x, (w - 1, 0)).unfold(1, w, 1).sum(2)
