"""Residual addition followed by RMSNorm, as between the blocks of a decoder; returns both."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

M, N = Dim("M", 1, 65536), Dim("N", 1, 16384)


@operator(
    x=tensor(M, N, dtypes=("float32", "bfloat16", "float16")),
    residual=tensor(M, N, dtypes="same as x"),
    weight=tensor(N, dtypes="same as x"),
    eps=scalar(float, 1e-6, 1e-3),
    workloads=[
        workload(M=512, N=4096, x="bfloat16", eps=1e-5),  # Mistral-7B, prefill of 512 tokens
        workload(M=512, N=3584, x="float32", eps=1e-6),  # Qwen2.5-7B
    ],
)
def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = x + residual
    return torch.nn.functional.rms_norm(hidden, (hidden.shape[-1],), weight, eps), hidden
