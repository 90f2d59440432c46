"""Messages added to their target nodes, duplicates included: sum aggregation of a graph network."""

import torch

from kernelsmith import Dim, operator, tensor, workload

S, E, N = Dim("S", 1, 262144), Dim("E", 1, 262144), Dim("N", 1, 4096)


def bound(base: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return base.abs().index_add(0, index, rows.abs())


@operator(
    base=tensor(S, N),
    index=tensor(E, dtypes="int64", low=0, high=S),
    rows=tensor(E, N),
    bound=bound,
    workloads=[
        workload(S=2708, E=10556, N=256),  # Cora: nodes, edges; hidden width 256
        workload(S=4096, E=16384, N=64),  # a sampled neighbourhood of ogbn-products
    ],
)
def scatter_add(base: torch.Tensor, index: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return base.index_add(0, index, rows)
