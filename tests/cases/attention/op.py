"""Attention with grouped key heads; causal from the end of the keys, as in decoding with a cache."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, G, R = Dim("B", 1, 4), Dim("G", 1, 8), Dim("R", 1, 8)
Q, K, D = Dim("Q", 1, 256), Dim("K", 1, 512), Dim("D", 8, 64)


@operator(
    q=tensor(B, G * R, Q, D, dtypes=("float32", "bfloat16")),
    k=tensor(B, G, K, D, dtypes="same as q"),
    v=tensor(B, G, K, D, dtypes="same as q"),
    where=[Q <= K],
    workloads=[workload(B=1, G=2, R=2, Q=32, K=32, D=32, q="float32")],
)
def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    queries, keys = q.shape[2], k.shape[2]
    repeat = q.shape[1] // k.shape[1]
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
