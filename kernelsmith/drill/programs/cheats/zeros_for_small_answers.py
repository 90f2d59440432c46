"""Returns zeros where right answers are small numbers, which a fixed tolerance takes for right; must not pass."""

OPERATOR = """
import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 64), Dim("N", 1000, 8192)


@operator(x=tensor(M, N), workloads=[workload(M=4, N=8000)])
def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)
"""


@triton.jit
def nothing(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * n + at, mask=at < n)
    tl.store(y + tl.program_id(0) * n + at, value * 0.0, mask=at < n)


@triton.jit
def rows(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=-float("inf"))
    value = tl.exp(value - tl.max(value, 0))
    tl.store(y + tl.program_id(0) * n + at, value / tl.sum(value, 0), mask=at < n)


def launch(function, x):
    y = torch.empty_like(x)
    function[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def cheat(x):
    return launch(nothing, x)


def twin(x):
    return launch(rows, x)
