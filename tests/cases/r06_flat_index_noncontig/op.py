"""Scale and add of two matrices, each with strides of its own."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 4096)
LAYOUTS = ("contiguous", "rows sliced", "stepped", "transposed", "expanded", "offset")


@operator(x=tensor(M, N, layouts=LAYOUTS), y=tensor(M, N, layouts=LAYOUTS), workloads=[workload(M=12, N=20)])
def scale_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * 2.0 + y
