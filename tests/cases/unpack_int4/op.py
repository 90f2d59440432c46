"""Signed 4-bit numbers, two in a byte, the low half first, times a number per group of 32."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 512), Dim("N", 1, 2048)


@operator(
    packed=tensor(M, N, dtypes="uint8", low=0, high=256, layouts=("contiguous", "rows sliced")),
    step=tensor(M, (N + 15) // 16, dtypes=("float32", "float16")),
    workloads=[workload(M=8, N=64, step="float32")],
)
def unpack_int4(packed: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
    halves = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(1).to(torch.int8)
    signed = torch.where(halves > 7, halves - 16, halves)
    return signed * step.repeat_interleave(32, 1)[:, : halves.shape[1]]
