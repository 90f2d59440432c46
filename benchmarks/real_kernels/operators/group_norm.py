"""Group normalisation of (B, C, L) with 4 groups."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, C, L = Dim("B", 1, 16), Dim("C", 4, 64), Dim("L", 1, 4096)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(B, C, L, dtypes=FLOATS),
    w=tensor(C, dtypes="same as x"),
    b=tensor(C, dtypes="same as x"),
    where=(C % 4 == 0),
    workloads=[workload(B=4, C=16, L=200, x="float32")],
)
def group_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.group_norm(x.float(), 4, w.float(), b.float(), 1e-5).to(x.dtype)
