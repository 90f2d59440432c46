"""Group norm without weights."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

B, G, C, L = Dim("B", 1, 16), Dim("G", 1, 8), Dim("C", 1, 8), Dim("L", 2, 256)


@operator(
    x=tensor(B, G * C, L),
    groups=scalar(int, G, G),
    workloads=[workload(B=2, G=2, C=4, L=32, groups=2)],
)
def group_norm(x: torch.Tensor, groups: int) -> torch.Tensor:
    return torch.nn.functional.group_norm(x, groups)
