"""Running sums along the second dimension, in float32."""

import torch

from kernelsmith import Dim, operator, tensor, workload

H, T, S = Dim("H", 1, 16), Dim("T", 1, 2048), Dim("S", 1, 128)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(H, T, S, dtypes=FLOATS),
    workloads=[workload(H=4, T=256, S=64, x="float32")],
)
def cumsum_rows(x: torch.Tensor) -> torch.Tensor:
    return x.float().cumsum(1)
