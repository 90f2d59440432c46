"""The probe role: does the device answer, and how fast does it copy? A child of its own asks, since one that does not
answer would hang whoever asks.

Asked by the judge before it uses a card again that was given up, and once for the peak of a card. The zygote calls
`main`; no code of a candidate is near, so what it measures is believed.
"""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import torch

from kernelsmith.devices import open_device
from kernelsmith.sandbox.replay.replay import Device
from kernelsmith.sandbox.wire.protocol import Channel, PeerGoneError

COPIED_BYTES = 64 << 20
_FILL = 0x5A
CLOCK_SECONDS, MOST_COPIES = 0.05, 4096
"""For which the device's clock is held against ours."""
LEAST_SHARE, MOST_SHARE = 0.2, 1.05
"""Of our clock's time, what the device's may count: it begins when the copies are queued and ends before we know, and
two oscillators differ by less than a thousandth. Another unit is out by a factor of a thousand."""


def main(channel: Channel, scratch: Path) -> None:
    """Answer each request with bytes per second, once the device has done a little work."""
    device = open_device()
    while True:
        try:
            channel.receive()
            check_clock(device)
            channel.send(json.dumps(copy_rate(device)).encode())
        except PeerGoneError:
            return


def check_clock(device: Device) -> None:
    """Hold the device's clock against this process's, over copies. Raises RuntimeError where they disagree: every
    speed-up would be a ratio of two different things."""
    source, target = device.reserve(COPIED_BYTES), device.reserve(COPIED_BYTES)
    copy = partial(target.copy_, source)
    once = max(1, min(device.time([copy]) for _ in range(3)))
    times = max(1, min(MOST_COPIES, round(CLOCK_SECONDS * 1e9 / once)))
    begin = time.perf_counter_ns()
    claimed = device.time([copy] * times)
    share = claimed / (time.perf_counter_ns() - begin)
    if not LEAST_SHARE <= share <= MOST_SHARE:
        raise RuntimeError(f"the device's clock counts {share:.3g} of the time that the processor's does")


def copy_rate(device: Device) -> float:
    """Bytes per second that a plain copy reads and writes. Raises RuntimeError where the copy is none."""
    source, target = device.reserve(COPIED_BYTES), device.reserve(COPIED_BYTES)
    source.fill_(_FILL)
    nanoseconds = min(device.time([partial(target.copy_, source)]) for _ in range(5))
    if not torch.equal(source, target):
        raise RuntimeError("the device copies wrongly")
    return 2 * COPIED_BYTES * 1e9 / max(1, nanoseconds)
