"""The probe role: does the device answer, and how fast does it copy? A child of its own asks, since one that does not
answer would hang whoever asks.

Asked by the judge before it uses a card again that was given up, and once for the peak of a card. The zygote calls
`main`; no code of a candidate is near, so what it measures is believed.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import torch

from kernelsmith.devices import open_device
from kernelsmith.sandbox.replay.replay import Device
from kernelsmith.sandbox.wire.protocol import Channel, PeerGoneError

COPIED_BYTES = 64 << 20
_FILL = 0x5A


def main(channel: Channel, scratch: Path) -> None:
    """Answer each request with bytes per second, once the device has done a little work."""
    device = open_device()
    while True:
        try:
            channel.receive()
            channel.send(json.dumps(copy_rate(device)).encode())
        except PeerGoneError:
            return


def copy_rate(device: Device) -> float:
    """Bytes per second that a plain copy reads and writes. Raises RuntimeError where the copy is none."""
    source, target = device.reserve(COPIED_BYTES), device.reserve(COPIED_BYTES)
    source.fill_(_FILL)
    nanoseconds = min(device.time([partial(target.copy_, source)]) for _ in range(5))
    if not torch.equal(source, target):
        raise RuntimeError("the device copies wrongly")
    return 2 * COPIED_BYTES * 1e9 / max(1, nanoseconds)
