"""float8 numbers times a number per block of 32, in float32."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 256), Dim("N", 1, 2048)


@operator(
    x=tensor(M, N, dtypes=("float8_e4m3fn", "float8_e5m2"), low=-16.0, high=16.0),
    scale=tensor(M, (N + 31) // 32, low=0.25, high=4.0),
    workloads=[workload(M=8, N=128, x="float8_e4m3fn")],
)
def fp8_scale(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x.float() * scale.repeat_interleave(32, 1)[:, : x.shape[1]]
