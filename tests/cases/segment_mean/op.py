"""Mean of the rows of each segment; 0 for an empty one. Rows after the last segment belong to none."""

import itertools

import torch

from kernelsmith import Dim, operator, tensor, workload

S, U, T, D = Dim("S", 1, 64), Dim("U", 0, 1024), Dim("T", 1, 1024), Dim("D", 1, 64)


@operator(
    x=tensor(T, D),
    offsets=tensor(S + 1, dtypes=("int32", "int64"), values="offsets", low=0, high=U),
    where=[U <= T],
    workloads=[workload(S=4, U=64, T=64, D=16, offsets="int32")],
)
def segment_mean(x: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    ends = offsets.tolist()
    means = [x[a:b].sum(0) / max(b - a, 1) for a, b in itertools.pairwise(ends)]
    return torch.stack(means)
