"""Rows by index; a negative index counts from the end."""

import torch

from kernelsmith import Dim, operator, tensor, workload

V, T, D = Dim("V", 1, 2048), Dim("T", 1, 2048), Dim("D", 1, 128)


@operator(
    table=tensor(V, D, dtypes=("float32", "float16"), layouts=("contiguous", "rows sliced", "offset")),
    index=tensor(T, dtypes=("int64", "int32"), low=-1 * V, high=V),
    workloads=[workload(V=64, T=32, D=32, table="float32", index="int64")],
)
def take_rows(table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return table[index.long()]
