"""A device for tests: the CPU behind a wall, so that memory must be copied to and fro as to a card."""

from __future__ import annotations

import torch

from kernelsmith.devices.cpu import CpuDevice


def open_device() -> StandIn:
    return StandIn()


class StandIn(CpuDevice):
    """Its memory is its own, and it knows what Triton asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.allocated: list[int] = []

    def allocate(self, size: int, alignment: int, stream: int | None) -> torch.Tensor:
        self.allocated.append(size)
        return super().allocate(size, alignment, stream)

    def place(self, host: torch.Tensor) -> torch.Tensor:
        return self.reserve(host.numel()).copy_(host)
