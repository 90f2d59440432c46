"""SwiGLU of a row that holds gate and value one after the other."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 2048), Dim("N", 1, 2048)


@operator(
    x=tensor(M, 2 * N, dtypes=("float32", "bfloat16"), layouts=("contiguous", "rows sliced")),
    workloads=[workload(M=8, N=128, x="float32")],
)
def swiglu(x: torch.Tensor) -> torch.Tensor:
    gate, value = x.chunk(2, dim=1)
    return torch.nn.functional.silu(gate) * value
