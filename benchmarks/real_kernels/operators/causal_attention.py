"""Causal attention of one sequence in the layout of servers, 32 elements a head: tokens first, with where it begins and
how long it is."""

import torch

from kernelsmith import Dim, operator, tensor, workload

T, H = Dim("T", 1, 1024), Dim("H", 1, 8)


@operator(
    q=tensor(T, H, 32, dtypes=("float16", "bfloat16")),
    k=tensor(T, H, 32, dtypes="same as q"),
    v=tensor(T, H, 32, dtypes="same as q"),
    start=tensor(1, dtypes="int32", low=0, high=1),
    length=tensor(1, dtypes="int32", low=T, high=T + 1),
    workloads=[workload(T=200, H=2, q="float16"), workload(T=333, H=1, q="bfloat16")],
)
def causal_attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, start: torch.Tensor, length: torch.Tensor
) -> torch.Tensor:
    query, key, value = (t.float().transpose(0, 1) for t in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    return out.transpose(0, 1).to(q.dtype).contiguous()
