"""A number times x, plus one."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

N = Dim("N", 0, 1 << 17)


@operator(
    x=tensor(N, dtypes=("float32", "bfloat16"), layouts=("contiguous", "stepped", "offset")),
    a=scalar(float, -2.0, 2.0),
    workloads=[workload(N=1000, x="float32", a=0.5)],
)
def scale_shift(x: torch.Tensor, a: float) -> torch.Tensor:
    return a * x + 1.0
