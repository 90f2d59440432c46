"""Rotary position embedding of queries or keys, halves rotated against each other (Llama, NeoX)."""

import torch

from kernelsmith import Dim, operator, tensor, workload

T, H, D = Dim("T", 1, 32768), Dim("H", 1, 128), Dim("D", 1, 128)


@operator(
    x=tensor(T, H, 2 * D, dtypes=("float32", "bfloat16", "float16")),
    cos=tensor(T, D, dtypes="same as x", low=-1.0, high=1.0),
    sin=tensor(T, D, dtypes="same as x", low=-1.0, high=1.0),
    workloads=[
        workload(T=512, H=32, D=64, x="bfloat16"),  # queries of Llama-3-8B, heads of 128
        workload(T=1024, H=8, D=64, x="float32"),  # its keys
    ],
)
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    left, right = x.chunk(2, dim=-1)
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)
