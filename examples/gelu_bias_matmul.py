"""First half of a GPT-2 feed-forward block: gelu(x @ weight + bias), tanh approximation."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N, K = Dim("M", 1, 16384), Dim("N", 1, 16384), Dim("K", 1, 8192)


@operator(
    x=tensor(M, K, dtypes=("float32", "bfloat16", "float16")),
    weight=tensor(K, N, dtypes="same as x"),  # GPT-2 keeps (in, out), unlike torch.nn.Linear
    bias=tensor(N, dtypes="same as x"),
    workloads=[
        workload(M=512, K=768, N=3072, x="float32"),  # GPT-2
        workload(M=512, K=1024, N=4096, x="bfloat16"),  # GPT-2 medium
    ],
)
def gelu_bias_matmul(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(torch.addmm(bias, x, weight), approximate="tanh")
