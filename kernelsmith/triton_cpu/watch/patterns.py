"""What masked-off lanes hold while a checked kernel runs.

A table has 128 bytes per element type, in the order of `Element`: one value per lane. The generated code reads it by
`ks_pattern` of cpp/checked.h. Used by `monitor`.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kernelsmith.triton_cpu.read.ir import Element

_LANES, _PATTERN_BYTES = 16, 128


@functools.cache
def patterns(kind: str) -> NDArray[np.uint8]:
    """What masked-off lanes hold, by element type: zeros, as on most GPUs, or one of `DISTURBED`."""
    table = np.zeros((len(Element), _PATTERN_BYTES), np.uint8)
    for number, element in enumerate(Element if kind in DISTURBED else ()):
        lanes = b"".join(DISTURBED[kind](element, lane) for lane in range(_LANES))
        table[number, : len(lanes)] = np.frombuffer(lanes, np.uint8)
    return table


def _large(element: Element, lane: int) -> bytes:
    """A large number of the type, no two lanes alike; signs alternate, so that neither sums nor extrema hide it."""
    sign = -1 if lane % 2 else 1
    if element is Element.F32:
        return struct.pack("<f", sign * 1e30 * (1 + lane / 16))
    if element is Element.F64:
        return struct.pack("<d", sign * 1e200 * (1 + lane / 16))
    if element is Element.BF16:
        return struct.pack("<f", sign * 1e30 * (1 + lane / 16))[2:]
    if element is Element.F16:
        return struct.pack("<e", sign * 2e4 * (1 + lane / 16))
    if element is Element.I1:
        return b"\1"
    size = element.bytes
    return (sign * ((0x35 << (8 * size - 8)) + 257 * lane) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _all_ones(element: Element, lane: int) -> bytes:
    """NaN, which not even a product with zero hides; -1 of an integer."""
    return b"\1" if element is Element.I1 else b"\xff" * element.bytes


DISTURBED: dict[str, Callable[[Element, int], bytes]] = {"large": _large, "all ones": _all_ones}
