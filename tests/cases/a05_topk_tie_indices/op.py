"""The eight largest of each row and where they are; equal values may be picked in any order."""

import torch

from kernelsmith import Dim, operator, tensor, workload

M, N = Dim("M", 1, 4096), Dim("N", 8, 1024)


def right(
    output: tuple[torch.Tensor, torch.Tensor], expected: tuple[torch.Tensor, torch.Tensor], x: torch.Tensor
) -> bool:
    values, indices = output
    assert torch.equal(values, expected[0]), "other values"
    assert bool(((indices >= 0) & (indices < x.shape[1])).all()), "an index outside of the row"
    assert torch.equal(x.gather(1, indices), values), "an index does not hold its value"
    ordered = indices.sort(dim=1).values
    assert bool((ordered[:, 1:] != ordered[:, :-1]).all()), "an index twice"
    return True


@operator(x=tensor(M, N), check=right, workloads=[workload(M=4, N=100)])
def largest_eight(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = torch.topk(x, 8, dim=1)
    return values, indices
