"""A role that tells how long its own confinement took, and how long its first compilation takes.

The zygote imports it before any fork, so that what it notes around `confine` is the fork's own.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl

from kernelsmith.sandbox.confine import confine
from kernelsmith.sandbox.wire.protocol import Channel, PeerGoneError

_seconds = [0.0]


def _timed(function: Callable[..., bool]) -> Callable[..., bool]:
    def timed(*args: Any, **kwargs: Any) -> bool:
        begin = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            _seconds[0] = time.perf_counter() - begin

    return timed


confine.confine = _timed(confine.confine)


@triton.jit  # type: ignore[untyped-decorator]
def _scale(x, y, n, factor, block: tl.constexpr):  # type: ignore[no-untyped-def]
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


def compile_one() -> float:
    """Milliseconds of compiling a kernel that no cache holds, the first of this process."""
    with tempfile.TemporaryDirectory() as folder:
        triton.knobs.cache.dir = folder
        begin = time.perf_counter()
        _scale.warmup(torch.float32, torch.float32, 100, 2.0, block=256, grid=(1,))
        return (time.perf_counter() - begin) * 1000


def main(channel: Channel, scratch: Path) -> None:
    """Answer one question per frame."""
    answers: dict[str, Callable[[], float]] = {
        "ping": lambda: 0.0,
        "confinement": lambda: _seconds[0] * 1000,
        "compile": compile_one,
    }
    while True:
        try:
            question = json.loads(channel.receive().payload)
            channel.send(json.dumps(answers[question]()).encode())
        except PeerGoneError:
            return
