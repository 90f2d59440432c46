"""Rows times the number of their segment; rows after the last segment are zero."""

import itertools

import torch

from kernelsmith import Dim, operator, tensor, workload

S, U, T, D = Dim("S", 1, 64), Dim("U", 1, 1024), Dim("T", 1, 1024), Dim("D", 1, 64)


@operator(
    x=tensor(T, D),
    scale=tensor(S),
    offsets=tensor(S + 1, dtypes="int32", values="offsets", low=0, high=U),
    where=[U <= T],
    workloads=[workload(S=4, U=64, T=64, D=16)],
)
def segment_scale(x: torch.Tensor, scale: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    y = torch.zeros_like(x)
    ends = offsets.tolist()
    for i, (a, b) in enumerate(itertools.pairwise(ends)):
        y[a:b] = x[a:b] * scale[i]
    return y
