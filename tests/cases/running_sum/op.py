"""Running sums of each row of integers, in int64."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 512), Dim("N", 1, 4096)


@operator(x=tensor(M, N, dtypes=("int32", "int16")), workloads=[workload(M=8, N=256, x="int32")])
def running_sum(x: torch.Tensor) -> torch.Tensor:
    return x.cumsum(dim=1)
