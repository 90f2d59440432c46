"""Mean of each column."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 256)


@operator(x=tensor(M, N, dtypes=("float32", "float16")), workloads=[workload(M=64, N=64, x="float32")])
def column_mean(x: torch.Tensor) -> torch.Tensor:
    return x.float().mean(dim=0)
