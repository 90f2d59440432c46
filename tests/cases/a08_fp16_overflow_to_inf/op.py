"""Square in float16, which overflows for large values."""

import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 1 << 20)


@operator(x=tensor(N, dtypes="float16"), workloads=[workload(N=300)])
def square(x: torch.Tensor) -> torch.Tensor:
    return x * x
