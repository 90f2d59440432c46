"""Dropout whose mask follows from a seed; which generator makes it is open."""

import torch

from kernelsmith import Dim, operator, scalar, tensor, workload

N = Dim("N", 1, 1_000_000)


def thinned(output: torch.Tensor, expected: torch.Tensor, x: torch.Tensor, p: float, seed: int) -> bool:
    """Zero, or x / (1 - p); kept at a rate within five standard deviations (and one element) of 1 - p."""
    alive = x != 0
    kept = output != 0
    assert bool((alive | ~kept).all()), "a zero of x is not zero"
    assert torch.allclose(output[kept], x[kept] / (1 - p)), "a kept element is not x / (1 - p)"
    n = int(alive.sum())
    off = abs(int(kept.sum()) - n * (1 - p))
    assert off <= 5 * (n * p * (1 - p)) ** 0.5 + 1, f"{int(kept.sum())} of {n} elements kept at p = {p}"
    return True


def seeded(call, x: torch.Tensor, p: float, seed: int) -> bool:
    """One mask per seed, and another for another seed."""
    first = call(x, p, seed)
    assert torch.equal(call(x, p, seed), first), "another mask under the same seed"
    if x.numel() * p * (1 - p) > 100:
        assert not torch.equal(call(x, p, (seed + 1) % 2**31), first), "the same mask under another seed"
    return True


@operator(
    x=tensor(N),
    p=scalar(float, 0.0, 0.9),
    seed=scalar(int, 0, 2**31 - 1),
    check=thinned,
    properties=seeded,
    workloads=[workload(N=8000, p=0.3, seed=1234)],
)
def dropout(x: torch.Tensor, p: float, seed: int) -> torch.Tensor:
    return torch.nn.functional.dropout(x, p, training=True)
