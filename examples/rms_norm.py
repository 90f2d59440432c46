"""RMSNorm over the last dimension, scaled by a weight."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

M, N = Dim("M", 1, 65536), Dim("N", 1, 16384)


@operator(
    x=tensor(M, N, dtypes=("float32", "bfloat16", "float16"), layouts=("contiguous", "rows sliced")),
    weight=tensor(N, dtypes="same as x"),
    eps=scalar(float, 1e-6, 1e-3),
    workloads=[
        workload(M=512, N=4096, x="bfloat16", eps=1e-5),  # Llama-3-8B, prefill of 512 tokens
        workload(M=1024, N=2048, x="float32", eps=1e-5),  # Llama-3.2-1B
        workload(M=8, N=4096, x="bfloat16", eps=1e-5, weight=0.5),  # decoding, batch 8
    ],
)
def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, eps)
