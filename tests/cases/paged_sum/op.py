"""Sum over the tokens of each sequence, whose pages lie scattered in a cache."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, P, K, D = Dim("B", 1, 16), Dim("P", 1, 256), Dim("K", 1, 16), Dim("D", 1, 64)


@operator(
    cache=tensor(P, 8, D, dtypes=("float32", "float16")),
    pages=tensor(B, K, dtypes="int32", low=0, high=P),
    lengths=tensor(B, dtypes="int32", low=0, high=8 * K + 1),
    workloads=[workload(B=4, P=32, K=4, D=32, cache="float32")],
)
def paged_sum(cache: torch.Tensor, pages: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    tokens = cache.float()[pages.long()].flatten(1, 2)
    seen = torch.arange(tokens.shape[1], device=cache.device) < lengths[:, None]
    return (tokens * seen[..., None]).sum(1)
