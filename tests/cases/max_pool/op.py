"""Largest of windows of K with step S; a last window that is cut off counts too."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

M, N, K = Dim("M", 1, 128), Dim("N", 1, 2048), Dim("K", 1, 16)


@operator(
    x=tensor(M, N, dtypes=("float32", "float16")),
    k=scalar(int, K, K),
    where=[K <= N],
    workloads=[workload(M=8, N=128, K=4, k=4, x="float32")],
)
def max_pool(x: torch.Tensor, k: int) -> torch.Tensor:
    return torch.nn.functional.max_pool1d(x, k, ceil_mode=True)
