"""Upper triangle."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 2048), Dim("N", 1, 2048)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(M, N, dtypes=FLOATS),
    workloads=[workload(M=100, N=333, x="float32")],
)
def triu(x: torch.Tensor) -> torch.Tensor:
    return torch.triu(x)
