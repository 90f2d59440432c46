"""Largest element of each row, the first place that holds it, and how many do."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 512), Dim("N", 1, 2048)


@operator(x=tensor(M, N, dtypes=("float32", "int32"), values="-inf"), workloads=[workload(M=8, N=128, x="float32")])
def max_and_where(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    most = x.amax(dim=1, keepdim=True)
    held = (x == most).int()
    return most[:, 0], held.argmax(dim=1), held.sum(dim=1)
