"""How many of the values fall into each of several bins."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

N, K = Dim("N", 0, 1 << 16), Dim("K", 1, 256)


@operator(
    bins=tensor(N, dtypes=("int32", "int64"), low=0, high=K),
    size=scalar(int, K, K),
    workloads=[workload(N=1000, K=16, size=16, bins="int32")],
)
def histogram(bins: torch.Tensor, size: int) -> torch.Tensor:
    return torch.bincount(bins, minlength=size)
