"""SwiGLU of a packed gate-and-up projection: silu(left half) times right half."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 65536), Dim("N", 1, 32768)


@operator(
    x=tensor(M, 2 * N, dtypes=("float32", "bfloat16", "float16")),
    workloads=[
        workload(M=128, N=14336, x="bfloat16"),  # Llama-3-8B feed-forward, 128 tokens
        workload(M=256, N=8192, x="float32"),  # Llama-3.2-1B
        workload(M=1, N=14336, x="bfloat16", weight=0.3),  # decoding
    ],
)
def swiglu(x: torch.Tensor) -> torch.Tensor:
    gate, up = x.chunk(2, dim=-1)
    return torch.nn.functional.silu(gate) * up
