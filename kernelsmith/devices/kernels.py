"""A plan's kernels on an accelerator, by Triton's own compilers and launchers.

Every Triton that follows upstream since 3.0 loads and launches a kernel in the same way, whatever its backend: those of
NVIDIA, AMD, Intel and Huawei do (read in their drivers). Proven without a device: everything up to the loaded binary,
for NVIDIA and AMD. Invariant: importing this module touches no device, since the zygote does. Called by `generic`, by
the zygote's warm-up and by the compiler role.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kernelsmith.devices import TARGET_VARIABLE
from kernelsmith.errors import InfrastructureError
from kernelsmith.plan import Kernel

_DIALECT_TYPES = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "u64": "i64"}
_POINTER = re.compile(r"!tt\.ptr<(.+)>$")


def kind_of(parameter: str) -> str:
    """A parameter's type as Triton's launchers know it, from a plan's: that of an AST signature, or of TTIR."""
    pointer = _POINTER.match(parameter)
    return f"*{kind_of(pointer[1])}" if pointer else _DIALECT_TYPES.get(parameter, parameter)


def compile_ttir(kernel: Kernel, target: Any) -> Any:
    """Triton's `CompiledKernel` for a `GPUTarget`; needs no device. Raises ValueError with the compiler's words, and
    InfrastructureError where this machine keeps it from working."""
    import triton

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ttir"  # Triton reads TTIR from files only
        source.write_text(kernel.ttir, encoding="utf-8")
        try:
            compiled = triton.compile(str(source), target=target, options=dict(kernel.options))
        except OSError as error:  # no assembler, no room for its files
            raise InfrastructureError(f"Triton's compiler cannot work here: {error}") from error
        except Exception as error:  # MLIR raises RuntimeError, the assemblers errors of their own
            raise ValueError(f"{type(error).__name__}: {error}") from error
    # TTIR spells types in ways that the launchers do not know, and knows no unsigned integers.
    compiled.src.signature = dict(enumerate(map(kind_of, kernel.signature)))
    return compiled


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel loaded into this process's context."""

    compiled: Any
    arguments: tuple[str, ...]

    def bind(self, grid: tuple[int, int, int], slots: Sequence[int | float], threads: int = 0) -> Callable[[], object]:
        """A call that queues it on the current stream."""
        from triton.runtime import driver

        if 0 in grid:
            return _nothing
        stream = driver.active.get_current_stream(driver.active.get_current_device())
        kernel = self.compiled
        # launch metadata and the two hooks stand between what the kernel needs and its arguments
        return partial(kernel.run, *grid, stream, kernel.function, kernel.packed_metadata, None, None, None, *slots)

    def bind_each(self, grid: tuple[int, int, int], slots: Sequence[int | float]) -> None:
        """Single program instances cannot be run."""


def load(kernel: Kernel) -> LoadedKernel:
    """Compile a plan's kernel for the device of this process and load it. Raises as `compile_ttir`; ValueError also
    where the kernel does not fit into the device."""
    from triton.runtime import driver
    from triton.runtime.errors import OutOfResources

    compiled = compile_ttir(kernel, given_target() or driver.active.get_current_target())
    try:
        compiled._init_handles()  # Huawei's Triton has no `run` before that
    except OutOfResources as error:
        raise ValueError(str(error)) from error
    return LoadedKernel(compiled, tuple(compiled.src.signature.values()))


def given_target() -> Any:
    """The `GPUTarget` that the target's file names; None where it leaves that to the driver. Touches no device."""
    from triton.backends.compiler import GPUTarget

    given = os.environ.get(TARGET_VARIABLE)
    if given is None:
        return None
    backend, arch, warp_size = given.split(":")
    return GPUTarget(backend, int(arch) if arch.isdecimal() else arch, int(warp_size))


def _nothing() -> None:
    """What a grid without programs does."""
