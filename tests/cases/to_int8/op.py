"""Affine quantisation to int8: round half to even, add the zero point, saturate."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

N = Dim("N", 1, 1 << 16)


def exact(output: torch.Tensor, expected: torch.Tensor, x: torch.Tensor, step: float, zero: int) -> bool:
    """Steps are powers of two, so every answer is certain, halves included."""
    return torch.equal(output, expected)


@operator(
    x=tensor(N, dtypes=("float32", "float16")),
    step=scalar(float, choices=(0.5, 0.25, 2.0)),
    zero=scalar(int, -128, 127),
    check=exact,
    workloads=[workload(N=512, x="float32", step=0.5, zero=3)],
)
def to_int8(x: torch.Tensor, step: float, zero: int) -> torch.Tensor:
    return (torch.round(x.float() / step) + zero).clamp(-128, 127).to(torch.int8)
