"""Magnitudes of one tensor with the signs of another, zeros included."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 16)


@operator(
    x=tensor(N, layouts=("contiguous", "stepped"), values="inf"),
    y=tensor(N, values="any"),
    workloads=[workload(N=500)],
)
def copy_sign(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return 1.0 / torch.copysign(x, y)
