"""Mamba's selective scan, which torch has no operator for: the reference is a loop over time."""

import torch

from kernelsmith import Dim, operator, tensor, workload

B, L, D, S = Dim("B", 1, 64), Dim("L", 1, 4096), Dim("D", 1, 8192), Dim("S", 1, 64)


@operator(
    x=tensor(B, L, D),
    delta=tensor(B, L, D, low=0.001, high=0.1),  # step sizes after softplus
    a=tensor(D, S, low=-16.0, high=-1.0),
    b=tensor(B, L, S),
    c=tensor(B, L, S),
    workloads=[
        workload(B=1, L=128, D=1536, S=16),  # Mamba-130m
        workload(B=4, L=32, D=1536, S=16, weight=0.5),
    ],
)
def selective_scan(
    x: torch.Tensor, delta: torch.Tensor, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
) -> torch.Tensor:
    state = x.new_zeros(x.shape[0], x.shape[2], a.shape[1])
    steps = []
    for t in range(x.shape[1]):
        decay = torch.exp(delta[:, t, :, None] * a)
        state = decay * state + (delta[:, t] * x[:, t])[:, :, None] * b[:, t, None, :]
        steps.append((state * c[:, t, None, :]).sum(dim=-1))
    return torch.stack(steps, dim=1)
