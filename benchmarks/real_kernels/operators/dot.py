"""Dot product of two vectors, in float32."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1_000_000)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(N, dtypes=FLOATS),
    y=tensor(N, dtypes="same as x"),
    workloads=[workload(N=50_000, x="float32")],
)
def dot(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.dot(x.float(), y.float())
