"""Matrix times vector."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 8192)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    a=tensor(M, N, dtypes=FLOATS, layouts=("contiguous", "rows sliced")),
    x=tensor(N, dtypes="same as a"),
    workloads=[workload(M=128, N=1000, a="float32")],
)
def mv(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return a @ x
