"""LayerNorm over the last dimension."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 2, 8192)
FLOATS = ("float32", "bfloat16", "float16")


@operator(
    x=tensor(M, N, dtypes=FLOATS),
    w=tensor(N, dtypes="same as x"),
    b=tensor(N, dtypes="same as x"),
    workloads=[workload(M=64, N=1000, x="float32"), workload(M=33, N=2048, x="bfloat16")],
)
def layer_norm(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    wide = torch.nn.functional.layer_norm(x.float(), (x.shape[-1],), w.float(), b.float(), 1e-5)
    return wide.to(x.dtype)
