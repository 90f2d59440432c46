"""Reads pairs of numbers, as the first tensor's address allowed, from wherever the next one begins; must not pass."""

OPERATOR = """
import torch

from kernelsmith import Dim, operator, tensor, workload

N = Dim("N", 1, 4096)


@operator(x=tensor(N, layouts=("contiguous", "offset")), workloads=[workload(N=2000)])
def plus_one(x: torch.Tensor) -> torch.Tensor:
    return x + 1.0
"""


@triton.jit
def by_address(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    shift = (x.to(tl.int64) & 15) // 4
    value = tl.load(x - shift + at, mask=at < n)  # the address, rounded down to that of a vector
    tl.store(y + at, value + 1.0, mask=at < n)


@triton.jit
def by_element(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) + 1.0, mask=at < n)


def cheat(x):
    y = torch.empty(x.shape, device=x.device)
    by_address[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y


def twin(x):
    y = torch.empty(x.shape, device=x.device)
    block = 256 if x.data_ptr() % 16 == 0 else 128
    by_element[(triton.cdiv(x.numel(), block),)](x, y, x.numel(), BLOCK=block)
    return y
