"""Sums nearly all of a row and scales what it has for the rest; must not pass."""

OPERATOR = """
import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 256), Dim("N", 1, 8192)


@operator(x=tensor(M, N), workloads=[workload(M=16, N=4000)])
def row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=1)
"""


@triton.jit
def part(x, y, n, most, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * n + at, mask=at < most, other=0.0)
    tl.store(y + tl.program_id(0), tl.sum(value, 0) * n / most)


def launch(x, most):
    y = torch.empty(x.shape[0], device=x.device)
    part[(x.shape[0],)](x, y, x.shape[1], most, BLOCK=triton.next_power_of_2(x.shape[1]))
    return y


def cheat(x):
    return launch(x, x.shape[1] - x.shape[1] // 100)


def twin(x):
    return launch(x, x.shape[1])
