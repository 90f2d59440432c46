"""One-dimensional convolution of one channel in and some out, with padding and dilation."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

B, C, L, K = Dim("B", 1, 16), Dim("C", 1, 32), Dim("L", 1, 1024), Dim("K", 1, 7)


@operator(
    x=tensor(B, 1, L, dtypes=("float32", "float16")),
    weight=tensor(C, 1, K, dtypes="same as x"),
    padding=scalar(int, 0, 3),
    dilation=scalar(int, 1, 3),
    where=[L >= 3 * K],
    workloads=[workload(B=2, C=8, L=128, K=3, x="float32", padding=1, dilation=1)],
)
def conv1d(x: torch.Tensor, weight: torch.Tensor, padding: int, dilation: int) -> torch.Tensor:
    return torch.nn.functional.conv1d(x, weight, padding=padding, dilation=dilation)
