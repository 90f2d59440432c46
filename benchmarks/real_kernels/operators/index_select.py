"""Columns that an index names."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N, L = Dim("M", 1, 2048), Dim("N", 1, 2048), Dim("L", 1, 2048)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(M, N, dtypes=FLOATS),
    index=tensor(L, dtypes="int64", low=0, high=N),
    workloads=[workload(M=64, N=500, L=100, x="float32")],
)
def index_select(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return x.index_select(1, index)
