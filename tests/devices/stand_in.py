"""A device for tests: the CPU behind a wall, so that memory must be copied to and fro as to a card."""

from __future__ import annotations

import torch

from kernelsmith.devices.cpu import CpuDevice


def open_device() -> StandIn:
    return StandIn()


class StandIn(CpuDevice):
    """Its memory is its own."""

    def place(self, host: torch.Tensor) -> torch.Tensor:
        return self.reserve(host.numel()).copy_(host)
