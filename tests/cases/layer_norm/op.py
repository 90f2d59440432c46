"""Layer norm over the last dim; the bias may be left out."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

M, N = Dim("M", 1, 2048), Dim("N", 2, 4096)


@operator(
    x=tensor(M, N, dtypes=("float32", "float16")),
    weight=tensor(N, dtypes="same as x"),
    bias=tensor(N, dtypes="same as x", optional=True),
    eps=scalar(float, 1e-6, 1e-3),
    workloads=[workload(M=8, N=256, x="float32", eps=1e-5)],
)
def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, eps: float) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x, x.shape[1:], weight, bias, eps)
