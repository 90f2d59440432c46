"""Sum of two vectors of mixed dtypes, promoted as torch does."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)


@operator(
    x=tensor(N, dtypes=("float32", "float16", "int32")),
    y=tensor(N, dtypes=("float32", "float16")),
    workloads=[workload(N=300, x="float32", y="float32")],
)
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y
