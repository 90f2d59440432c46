"""Values clipped from below and above; NaN stays NaN."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

M, N = Dim("M", 1, 1024), Dim("N", 1, 1024)


@operator(
    x=tensor(M, N, dtypes=("float32", "float16"), layouts=("contiguous", "stepped", "transposed"), values="any"),
    low=tensor(M, 1, dtypes="same as x", low=-2.0, high=0.0),
    high=scalar(float, 0.5, 3.0),
    workloads=[workload(M=16, N=64, x="float32", high=1.0)],
)
def clip(x: torch.Tensor, low: torch.Tensor, high: float) -> torch.Tensor:
    return torch.maximum(x, low).clamp(max=high)
