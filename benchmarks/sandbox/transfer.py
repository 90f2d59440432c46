"""64 MB of inputs to a child and 64 MB of outputs back, as the judge does it."""

from __future__ import annotations

import statistics
import time

import torch

from benchmarks.sandbox.line import Line
from kernelsmith.evaluate.sessions import transport
from kernelsmith.evaluate.truth.inputs import CallInputs, Case, TensorValue
from kernelsmith.plan import View
from kernelsmith.sandbox.wire.memory import ArenaPool
from kernelsmith.sandbox.wire.messages import OutputTensor

NBYTES = 64 << 20


def lines(rounds: int) -> list[Line]:
    """Median time of both ways together, in arenas that were used before."""
    shape = (NBYTES // 4,)
    view = View(buffer=0, dtype="float32", shape=shape, strides=(1,))
    inputs = CallInputs(Case(), ("x",), (TensorValue(torch.zeros(NBYTES, dtype=torch.uint8), view),))
    output = OutputTensor(dtype="float32", shape=shape, strides=(1,), offset=0)
    pool, packed, times = ArenaPool(), transport.packed(inputs), list[float]()
    for _ in range(2 + rounds):
        given, returned = pool.take(packed.end), pool.take(NBYTES)
        begin = time.perf_counter()
        transport.write(inputs, given, packed.regions)
        transport.outputs(returned, [output])
        times.append((time.perf_counter() - begin) * 1000)
        pool.give_back(given)
        pool.give_back(returned)
    pool.release()
    return [Line("64 MB in and out", statistics.median(times[2:]), 15, "ms", False, f"median of {rounds}")]
