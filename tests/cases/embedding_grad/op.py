"""Gradient of an embedding table: rows added up by token; one token is padding and gets none."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

V, T, D = Dim("V", 2, 512), Dim("T", 1, 1024), Dim("D", 1, 64)


@operator(
    grad=tensor(T, D, layouts=("contiguous", "expanded", "rows sliced")),
    tokens=tensor(T, dtypes="int64", low=0, high=V),
    rows=scalar(int, V, V),
    padding=scalar(int, 0, V - 1),
    workloads=[workload(V=64, T=32, D=16, rows=64, padding=0)],
)
def embedding_grad(grad: torch.Tensor, tokens: torch.Tensor, rows: int, padding: int) -> torch.Tensor:
    kept = (tokens != padding)[:, None].to(grad.dtype)
    return torch.zeros(rows, grad.shape[1], dtype=grad.dtype).index_add(0, tokens, grad * kept)
