"""Logarithm of the sum of exponentials of each row; entries, or whole rows, may be masked by -inf."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 2048), Dim("N", 1, 4096)


@operator(
    x=tensor(M, N, dtypes=("float32", "bfloat16"), layouts=("contiguous", "rows sliced"), values="-inf"),
    workloads=[workload(M=8, N=256, x="float32")],
)
def logsumexp(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x.float(), dim=1)
