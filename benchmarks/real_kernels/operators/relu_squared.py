"""The square of ReLU."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 1, 8192)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(M, N, dtypes=FLOATS),
    workloads=[workload(M=64, N=1000, x="float32"), workload(M=33, N=2048, x="bfloat16")],
)
def relu_squared(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x.float()).square().to(x.dtype)
