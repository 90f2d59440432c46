"""Means of chunks of 32 along the second dimension."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, T, H, D = Dim("B", 1, 4), Dim("T", 1, 1024), Dim("H", 1, 8), Dim("D", 1, 128)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(B, T, H, D, dtypes=FLOATS),
    workloads=[workload(B=2, T=100, H=2, D=64, x="float32")],
)
def mean_pool(x: torch.Tensor) -> torch.Tensor:
    chunks = [chunk.float().mean(1) for chunk in torch.split(x, 32, 1)]
    return torch.stack(chunks, 1).to(x.dtype)
