"""Sum of two vectors."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1_000_000)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(N, dtypes=FLOATS),
    y=tensor(N, dtypes="same as x"),
    workloads=[workload(N=98_432, x="float32")],
)
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x + y
