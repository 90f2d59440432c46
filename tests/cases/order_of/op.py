"""Stable order of each row, ascending."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 512), Dim("N", 1, 128)


@operator(x=tensor(M, N, dtypes=("float32", "float16", "int32")), workloads=[workload(M=8, N=32, x="float32")])
def order_of(x: torch.Tensor) -> torch.Tensor:
    return torch.sort(x, dim=1, stable=True).indices
