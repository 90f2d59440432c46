"""Rows picked by index; rows may lie further apart than they are wide, and the whole may be larger
than 2**31 elements."""

import torch

from kernelsmith import Dim, operator, tensor, workload

R, C, P = Dim("R", 1, 1 << 22), Dim("C", 1, 1024), Dim("P", 1, 4096)


@operator(
    x=tensor(R, C, dtypes="int8", layouts=("contiguous", "rows sliced")),
    rows=tensor(P, dtypes="int32", low=0, high=R),
    workloads=[workload(R=64, C=100, P=32)],
)
def gather(x: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return x[rows.long()]
