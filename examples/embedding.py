"""Token embedding: rows of a table by index."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, V, N = Dim("M", 1, 65536), Dim("V", 1, 262144), Dim("N", 1, 16384)


@operator(
    ids=tensor(M, dtypes=("int64", "int32"), low=0, high=V),
    table=tensor(V, N, dtypes=("float32", "bfloat16", "float16")),
    workloads=[
        workload(M=1024, V=50257, N=768, ids="int64", table="float32"),  # GPT-2
        workload(M=2048, V=30522, N=1024, ids="int64", table="bfloat16"),  # BERT-large
    ],
)
def embedding(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.embedding(ids, table)
