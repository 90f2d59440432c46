"""The four largest elements of each row and where they are; of equal ones, any."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 1024), Dim("N", 4, 2048)


def is_top_four(output: tuple[torch.Tensor, ...], expected: tuple[torch.Tensor, ...], x: torch.Tensor) -> bool:
    values, places = output
    assert torch.equal(values, expected[0]), "the values are not the four largest"
    assert bool(((places >= 0) & (places < x.shape[1])).all()), "a place lies outside of the row"
    assert torch.equal(x.gather(1, places), values), "a place does not hold the value beside it"
    ordered = places.sort(-1).values
    assert bool((ordered[:, 1:] != ordered[:, :-1]).all()), "one place is named twice"
    return True


@operator(x=tensor(M, N), check=is_top_four, workloads=[workload(M=64, N=100)])
def top_four(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.topk(4, dim=-1)
