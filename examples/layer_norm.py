"""LayerNorm over the last dimension with weight and bias."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

M, N = Dim("M", 1, 65536), Dim("N", 1, 16384)


@operator(
    x=tensor(M, N, dtypes=("float32", "bfloat16", "float16"), layouts=("contiguous", "rows sliced")),
    weight=tensor(N, dtypes="same as x"),
    bias=tensor(N, dtypes="same as x"),
    eps=scalar(float, 1e-6, 1e-3),
    workloads=[
        workload(M=2048, N=768, x="float32", eps=1e-5),  # GPT-2, two sequences of 1024
        workload(M=1500, N=1280, x="float32", eps=1e-5),  # Whisper-large encoder, 30 s of audio
        workload(M=4096, N=1024, x="bfloat16", eps=1e-5),  # BERT-large, 8 sequences of 512
    ],
)
def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, eps: float = 1e-5) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, eps)
