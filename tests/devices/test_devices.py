"""What is the same for every device: how a process comes by it."""

from __future__ import annotations

import contextvars

import pytest

from kernelsmith.devices import MODULE_VARIABLE, open_device
from tests.devices.stand_in import StandIn


def test_triton_allocates_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime import _allocation

    def allocated() -> list[int]:
        device = open_device()
        _allocation._allocator.get()(4096, 128, None)
        assert isinstance(device, StandIn)
        return device.allocated

    monkeypatch.setenv(MODULE_VARIABLE, "tests.devices.stand_in")
    assert contextvars.copy_context().run(allocated) == [4096]
