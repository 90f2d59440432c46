"""What the zygote does once so that no fork pays for it: the first Triton compilation of a process, and the runtime.

A cold front end imports modules and hashes Triton's own sources, which takes longer than compiling most kernels, and so
does compiling the thread pool and the monitor.
Invariant: nothing is launched, so that no thread starts. Named by roles.py.
"""

from __future__ import annotations

import os

import triton
import triton.language as tl
from triton.compiler import ASTSource

from kernelsmith.devices import DEFAULT, MODULE_VARIABLE


@triton.jit  # type: ignore[untyped-decorator]
def _row(x, y, n, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """A kernel of the usual kind: a masked load, a reduction, a store."""
    at = tl.arange(0, block)
    row = tl.program_id(0) * n
    values = tl.load(x + row + at, mask=at < n, other=0.0)
    tl.store(y + row + at, values * tl.sum(values, 0), mask=at < n)


def compile_something() -> None:
    """Compile a kernel for the target, and load what launches on the CPU need, checked ones too.

    For a GPU its `GPUTarget` is named, since Triton's driver would make a context, which no fork can use.
    """
    import torch

    from kernelsmith.devices import kernels

    if (target := kernels.given_target()) is not None and target.backend != "npu":
        kinds = {"x": "*fp32", "y": "*fp32", "n": "i32", "block": "constexpr"}
        triton.compile(ASTSource(_row, kinds, {"block": 128}), target=target)
        return
    _row.warmup(torch.float32, torch.float32, 100, block=128, grid=(1,))
    if os.environ.get(MODULE_VARIABLE, DEFAULT) == DEFAULT:
        from kernelsmith.devices.cpu import idle_kernel
        from kernelsmith.triton_cpu.run import pool
        from kernelsmith.triton_cpu.watch import monitor

        pool.load()
        pool.set_spin(0.0)  # children share their cores; what is timed keeps its threads awake (`CpuDevice.timed`)
        monitor.load()
        idle_kernel()
