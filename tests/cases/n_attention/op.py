"""Attention without a mask over many keys, in bfloat16 or float32."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, N, L = Dim("B", 1, 4), Dim("N", 1, 64), Dim("L", 1, 16384)


@operator(
    q=tensor(B, N, 32, dtypes=("bfloat16", "float32")),
    k=tensor(B, L, 32, dtypes="same as q"),
    v=tensor(B, L, 32, dtypes="same as q"),
    workloads=[workload(B=1, N=16, L=8192, q="bfloat16"), workload(B=1, N=16, L=1000, q="float32")],
)
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    score = q.float() @ k.float().transpose(-1, -2) * q.shape[-1] ** -0.5
    return (score.softmax(-1) @ v.float()).to(q.dtype)
