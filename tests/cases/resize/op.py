"""Rows resized to twice their length less one by linear interpolation between corners."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 128), Dim("N", 2, 1024)


@operator(x=tensor(M, N, dtypes=("float32", "bfloat16")), workloads=[workload(M=8, N=64, x="float32")])
def resize(x: torch.Tensor) -> torch.Tensor:
    size = 2 * x.shape[1] - 1
    return torch.nn.functional.interpolate(x.float()[:, None], size, mode="linear", align_corners=True)[:, 0]
