"""Length of each row, however small its values are."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 1024), Dim("N", 1, 2048)


@operator(x=tensor(M, N, dtypes=("float32", "bfloat16")), workloads=[workload(M=8, N=256, x="float32")])
def tiny_norm(x: torch.Tensor) -> torch.Tensor:
    return x.float().norm(dim=1)
