"""Every vector times the number of its batch and head."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, H, L, D = Dim("B", 1, 32), Dim("H", 1, 32), Dim("L", 1, 1024), Dim("D", 1, 128)


@operator(
    x=tensor(B, H, L, D, layouts=("contiguous", "transposed", "offset")),
    scale=tensor(B, H, layouts=("contiguous", "transposed", "expanded")),
    workloads=[workload(B=4, H=4, L=16, D=32)],
)
def scale_heads(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * scale[:, :, None, None]
