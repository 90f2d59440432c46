"""Rows of a table."""

import torch

from kernelsmith import Dim, operator, tensor, workload

L, V, D = Dim("L", 1, 4096), Dim("V", 1, 4096), Dim("D", 1, 1024)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    table=tensor(V, D, dtypes=FLOATS),
    index=tensor(L, dtypes="int64", low=0, high=V),
    workloads=[workload(L=64, V=1000, D=200, table="float32")],
)
def embedding(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return table[index]
