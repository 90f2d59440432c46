"""Linear attention step by step: the state gains the outer product of key and value, the query reads it."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, T, H, D = Dim("B", 1, 4), Dim("T", 1, 256), Dim("H", 1, 4), Dim("D", 16, 64)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    q=tensor(B, T, H, D, dtypes=FLOATS),
    k=tensor(B, T, H, D, dtypes="same as q"),
    v=tensor(B, T, H, D, dtypes="same as q"),
    workloads=[workload(B=1, T=64, H=2, D=32, q="float32")],
)
def linear_recurrence(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    state = (k.float()[..., :, None] * v.float()[..., None, :]).cumsum(1)
    return (q.float()[..., None, :] @ state)[..., 0, :].to(q.dtype)
