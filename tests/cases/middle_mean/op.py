"""Mean over the middle dim."""

import torch

from kernelsmith import Dim, operator, tensor, workload

A, N, C = Dim("A", 1, 256), Dim("N", 1, 1024), Dim("C", 1, 256)


@operator(x=tensor(A, N, C, dtypes=("float32", "float16")), workloads=[workload(A=4, N=32, C=32, x="float32")])
def middle_mean(x: torch.Tensor) -> torch.Tensor:
    return x.mean(dim=1)
