"""Cross entropy of each row, in float32."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 1024), Dim("N", 2, 16384)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(M, N, dtypes=FLOATS),
    label=tensor(M, dtypes="int64", low=0, high=N),
    workloads=[workload(M=32, N=2000, x="float32"), workload(M=8, N=8192, x="bfloat16")],
)
def cross_entropy(x: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(x.float(), label, reduction="none")
