"""Row minimum."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 4096)


@operator(
    x=tensor(M, N, dtypes=("float32", "float16"), layouts=("contiguous", "rows sliced")),
    workloads=[workload(M=8, N=256, x="float32")],
)
def row_min(x: torch.Tensor) -> torch.Tensor:
    return x.amin(dim=1)
