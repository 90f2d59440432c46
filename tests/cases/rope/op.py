"""Rotary embedding of neighbouring pairs in place, at positions from a given start."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

L, H, D = Dim("L", 1, 512), Dim("H", 1, 16), Dim("D", 1, 64)
P = Dim("P", 1, 2048)


@operator(
    x=tensor(L, H, 2 * D, dtypes=("float32", "float16")),
    cos=tensor(P, D, low=-1.0, high=1.0),
    sin=tensor(P, D, low=-1.0, high=1.0),
    start=scalar(int, 0, P - L),
    mutates=("x",),
    where=[L <= P],
    workloads=[workload(L=16, H=4, D=32, P=64, x="float32", start=0)],
)
def rope(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, start: int) -> torch.Tensor:
    c, s = (t[start : start + x.shape[0], None] for t in (cos, sin))
    even, odd = x[..., ::2].to(c.dtype), x[..., 1::2].to(c.dtype)
    turned = torch.stack((even * c - odd * s, odd * c + even * s), dim=-1)
    return x.copy_(turned.flatten(2))
