"""Which stores may pass the caches by: those of outputs that no cache can hold.

An ordinary store reads the line that it overwrites. Streaming stores save that third of an elementwise kernel's memory
traffic, but evict what they write, do badly in bursts or at partial lines, and are not ordered with other stores. So a
store streams if its loop takes its values straight from memory, as elementwise kernels do; if nothing of the kernel
reads the tensor back or synchronises; and, which the generated code asks, if the output is large and the row whole
cache lines. Called by `statements`.
"""

from __future__ import annotations

import math

from kernelsmith.triton_cpu.emit.loop import Loop
from kernelsmith.triton_cpu.emit.reps import Linear
from kernelsmith.triton_cpu.emit.scope import Scope
from kernelsmith.triton_cpu.read.ir import Element, Op, Type, Value, walk

_ADDRESS_OPS = ("tt.addptr", "tt.splat", "tt.broadcast", "tt.expand_dims", "tt.trans", "tt.reshape")
_READS = ("tt.load",)
_SYNCHRONISE = ("tt.atomic", "tt.call", "gpu.barrier", "ttg.barrier", "nvvm.barrier")


def may_stream(scope: Scope, store: Op) -> bool:
    """True if no part of the kernel reads what this store writes, or orders it with what others write."""
    if len(scope.module.functions) > 1:
        return False
    kernel = scope.module.kernel
    target = _argument(scope, store.operands[0])
    if target not in kernel.arguments:
        return False
    for op in walk(kernel.body):
        if op.name.startswith(_SYNCHRONISE):
            return False
        if op.name in _READS:
            source = _argument(scope, op.operands[0])
            if source is target or source not in kernel.arguments:
                return False
    return True


def _argument(scope: Scope, pointer: Value) -> Value:
    """The value that a tensor of pointers was computed from."""
    op = scope.definition(pointer)
    while op is not None and op.name in _ADDRESS_OPS:
        pointer = op.operands[0]
        op = scope.definition(pointer)
    return pointer


def far_condition(loop: Loop, pointer: Linear, size: int) -> str | None:
    """A name of the C++ condition under which this row's stores of `size` bytes stream; None if they never should."""
    if not loop.full or loop.reads_arrays or pointer.stride != 1:
        return None
    reach = f"{loop.extent}l"
    for limit in loop.limits:
        reach = f"ks_smaller<i64>({limit}, {reach})"
    loop.scope.streams = True
    rows = math.prod(loop.shape) // loop.extent
    total = f"{rows} * (f64)programs_x * (f64)programs_y * (f64)programs_z"
    return loop.scalar(Type(Element.I1), f"ks_far({pointer.base}, {size} * {reach}, {total})", "far")
