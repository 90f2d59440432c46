"""Replays what it captured for a shape, whatever strides the tensor has that comes; must not pass."""

OPERATOR = """
import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 512), Dim("N", 1, 512)


@operator(x=tensor(M, N, layouts=("contiguous", "rows sliced")), workloads=[workload(M=60, N=200)])
def plus_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1.0
"""
captured = {}


@triton.jit
def rows(x, y, stride, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * stride + at, mask=at < n)
    tl.store(y + tl.program_id(0) * n + at, value + 1.0, mask=at < n)


def launch(x, stride):
    y = torch.empty(x.shape, device=x.device)
    rows[(x.shape[0],)](x, y, stride, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def cheat(x):
    return launch(x, captured.setdefault(x.shape, x.stride(0)))


def twin(x):
    return launch(x, captured.setdefault((x.shape, x.stride()), x.stride(0)))
