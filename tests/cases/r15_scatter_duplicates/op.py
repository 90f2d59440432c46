"""Adds values into rows by index, in place; an index may occur again."""

import torch

from kernelsmith import Dim, operator, tensor, workload

R, N = Dim("R", 1, 65536), Dim("N", 1, 65536)


def magnitude(total: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return total.double().abs().index_add(0, index, source.double().abs())


@operator(
    total=tensor(R),
    index=tensor(N, dtypes="int64", low=0, high=R),
    source=tensor(N),
    mutates=("total",),
    bound=magnitude,
    workloads=[workload(R=200, N=64)],
)
def add_at(total: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return total.index_add_(0, index, source)
