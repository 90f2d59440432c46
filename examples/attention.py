"""Causal self-attention over whole heads."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, H, L, D = Dim("B", 1, 64), Dim("H", 1, 128), Dim("L", 1, 8192), Dim("D", 8, 128)


@operator(
    q=tensor(B, H, L, D, dtypes=("float32", "bfloat16", "float16")),
    k=tensor(B, H, L, D, dtypes="same as q"),
    v=tensor(B, H, L, D, dtypes="same as q"),
    workloads=[
        workload(B=1, H=12, L=1024, D=64, q="float32"),  # GPT-2
        workload(B=1, H=32, L=512, D=64, q="bfloat16"),  # Llama-3.2-1B, prefill of 512 tokens
    ],
)
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
