"""A device for tests: the CPU behind a wall, so that memory must be copied to and fro as to a card."""

from __future__ import annotations

import os

import torch

from kernelsmith.devices.cpu import CpuDevice


def open_device() -> StandIn:
    return StandIn()


class StandIn(CpuDevice):
    """Its memory is its own; it answers only where its node is let through."""

    def place(self, host: torch.Tensor) -> torch.Tensor:
        return self.reserve(host.numel()).copy_(host)

    def probe(self) -> None:
        os.close(os.open("/dev/zero", os.O_RDONLY))
        super().probe()
