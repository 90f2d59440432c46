"""Row softmax over the last dimension."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 65536), Dim("N", 1, 16384)


@operator(
    x=tensor(M, N, dtypes=("float32", "bfloat16", "float16")),
    workloads=[workload(M=4096, N=1024, x="bfloat16"), workload(M=1, N=4096, x="float32", weight=0.2)],
)
def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=-1)
