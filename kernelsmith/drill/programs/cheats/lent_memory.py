"""Returns its input, the same tensor twice, and memory that it overwrites in the next call; must not pass."""

OPERATOR = """
import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 4096)


@operator(x=tensor(N), workloads=[workload(N=2000)])
def three(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x * x, x.clone(), x * x
"""
kept = {}


@triton.jit
def square(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(y + at, value * value, mask=at < n)


def launch(x, y):
    square[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def cheat(x):
    y = launch(x, kept.setdefault(x.numel(), torch.empty_like(x)))
    return y, x, y


def twin(x):
    both = torch.empty(2, x.numel(), device=x.device)  # one allocation, two parts of it
    both[1].copy_(launch(x, both[0]))
    return both[0], x.clone(), both[1]
