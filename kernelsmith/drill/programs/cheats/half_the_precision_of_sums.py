"""Adds up a row in 16 bits and returns 32; must not pass."""

OPERATOR = """
import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 256), Dim("N", 1, 8192)


@operator(x=tensor(M, N), workloads=[workload(M=16, N=4000)])
def row_sum(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=1)
"""


@triton.jit
def rows(x, y, n, BLOCK: tl.constexpr, WITHIN: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * n + at, mask=at < n, other=0.0).to(WITHIN)
    tl.store(y + tl.program_id(0), tl.sum(value, 0).to(tl.float32))


def launch(x, within):
    y = torch.empty(x.shape[0], device=x.device)
    rows[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), WITHIN=within)
    return y


def cheat(x):
    return launch(x, tl.bfloat16)


def twin(x):
    return launch(x, tl.float32)
