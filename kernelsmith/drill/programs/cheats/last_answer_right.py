"""Returns several tensors of which the last one alone is right, for those who keep the last verdict; must not pass."""

OPERATOR = """
import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 4096)


@operator(x=tensor(N), workloads=[workload(N=2000)])
def three(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return x + 1.0, x * 2.0, x * x
"""


@triton.jit
def together(x, a, b, c, n, BLOCK: tl.constexpr, FAULT: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    tl.store(a + at, value + 1.0, mask=at < n)
    tl.store(b + at, value * (2.0 + FAULT), mask=at < n)
    tl.store(c + at, value * value, mask=at < n)


def launch(x, fault):
    a, b, c = (torch.empty_like(x) for _ in range(3))
    together[(triton.cdiv(x.numel(), 256),)](x, a, b, c, x.numel(), BLOCK=256, FAULT=fault)
    return a, b, c


def cheat(x):
    return launch(x, 0.01)


def twin(x):
    return launch(x, 0.0)
