"""Rotary embedding of the halves of each head."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, L, H, D = Dim("B", 1, 8), Dim("L", 1, 1024), Dim("H", 1, 16), Dim("D", 2, 128)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(B, L, H, D, dtypes=FLOATS),
    cos=tensor(L, D // 2, dtypes="same as x", low=-1.0, high=1.0),
    sin=tensor(L, D // 2, dtypes="same as x", low=-1.0, high=1.0),
    where=(D % 2 == 0),
    workloads=[workload(B=1, L=64, H=4, D=64, x="float32")],
)
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    one, two = x.float().chunk(2, -1)
    c, s = cos.float()[:, None], sin.float()[:, None]
    return torch.cat([one * c - two * s, two * c + one * s], -1).to(x.dtype)
