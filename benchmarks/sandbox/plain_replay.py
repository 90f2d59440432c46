"""A plain script that times one kernel: no sandbox, no plan, memory from torch, the process on its own.

Started by accuracy.py with the kernel as JSON on its first line; then a line for every sample, answered by nanoseconds.
"""

from __future__ import annotations

import json
import sys
import time

import torch

from kernelsmith.devices.cpu import CpuDevice
from kernelsmith.plan import Kernel
from kernelsmith.triton_cpu.run import launch, pool

NOTHING = "module {\n  tt.func public @nothing() {\n    tt.return\n  }\n}\n"


def main() -> None:
    """Each sample: new inputs, emptied caches, threads that are awake, then the clock."""
    order = json.loads(sys.stdin.readline())
    kernel = launch.compile_ttir(Kernel.model_validate(order["kernel"]).ttir)
    x, y = torch.rand(order["elements"]), torch.empty(order["elements"])
    flush = torch.empty(order["flush_bytes"], dtype=torch.uint8)
    device = CpuDevice()
    nothing = launch.compile_ttir(NOTHING).bind((4 * pool.get_num_threads(), 1, 1), [])
    torch.set_num_threads(1)
    for line in sys.stdin:
        call = kernel.bind((order["elements"] // order["block"], 1, 1), [x.data_ptr(), y.data_ptr(), int(line)])
        x.copy_(torch.rand(x.shape))
        y.fill_(torch.nan)
        flush.fill_(1)
        with device.timed():
            nothing()
            begin = time.perf_counter_ns()
            call()
            taken = time.perf_counter_ns() - begin
        print(taken, flush=True)


if __name__ == "__main__":
    main()
