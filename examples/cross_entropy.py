"""Cross entropy of each row of logits against its target class."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, V = Dim("M", 1, 16384), Dim("V", 2, 262144)


@operator(
    logits=tensor(M, V, dtypes=("float32", "bfloat16", "float16"), layouts=("contiguous", "rows sliced")),
    target=tensor(M, dtypes="int64", low=0, high=V),
    workloads=[
        workload(M=128, V=50257, logits="float32"),  # GPT-2
        workload(M=64, V=128256, logits="bfloat16"),  # Llama 3
    ],
)
def cross_entropy(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits, target, reduction="none")
