"""Where a front end, of whichever Triton, gets the machine code of its TTIR: from somebody else, or made here.

Invariant: needs no Triton, so that front ends of other versions than the one beside this package can use it. Called by
the last stage of a compilation; `build_with` by the recorder.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernelsmith.triton_cpu.isa import host_isa
from kernelsmith.triton_cpu.run import launch

if TYPE_CHECKING:
    from kernelsmith.triton_cpu.emit.codegen import GeneratedKernel

Builder = Callable[[str, bool], launch.Binary]
"""Gives the plain build of a TTIR text, with or without fp fusion; raises KernelsmithError where there is none."""
_builder: Builder | None = None


def build_with(builder: Builder) -> None:
    """From now on this process has its kernels built by somebody else."""
    global _builder
    _builder = builder


def built_elsewhere() -> bool:
    """Whether somebody else builds."""
    return _builder is not None


def obtain(ttir: str, metadata: dict[str, Any], *, fp_fusion: bool) -> bytes:
    """The plain build, with what launches need to know of it in `metadata`."""
    if _builder is not None:
        binary = _builder(ttir, fp_fusion)
    else:
        binary = launch.build_ttir(ttir, host_isa(), fp_fusion=fp_fusion, checked=False)
    describe(binary, metadata)
    return binary.code


def describe(kernel: GeneratedKernel | launch.Binary, metadata: dict[str, Any]) -> None:
    """What launches need to know of a kernel."""
    metadata["name"] = kernel.name
    metadata["shared"] = 1  # bytes; there is no such memory, but programs divide by what a kernel takes of it
    metadata["slot_types"] = tuple(map(str, kernel.arguments))
    metadata["scratch_bytes"] = kernel.scratch_bytes
    metadata["waits"] = kernel.waits
    metadata["watch"] = None if kernel.watch is None else json.dumps(kernel.watch.as_json())
