"""Row maximum."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 65536)


@operator(x=tensor(M, N, dtypes=("float32", "bfloat16", "float16")), workloads=[workload(M=5, N=256, x="float32")])
def row_max(x: torch.Tensor) -> torch.Tensor:
    return x.amax(dim=1)
