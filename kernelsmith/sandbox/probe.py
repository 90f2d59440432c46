"""The probe role: does the device answer? A child of its own asks, since one that does not would hang whoever asks.

Asked by the judge before it uses a card again that was given up. The zygote calls `main`.
"""

from __future__ import annotations

from pathlib import Path

from kernelsmith.devices import open_device
from kernelsmith.sandbox.protocol import Channel, PeerGoneError


def main(channel: Channel, scratch: Path) -> None:
    """Answer each request with an empty frame, once the device has done a little work."""
    device = open_device()
    while True:
        try:
            channel.receive()
            device.probe()
            channel.send(b"{}")
        except PeerGoneError:
            return
