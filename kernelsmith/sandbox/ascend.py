"""triton-ascend in a recorder: its own front end makes the TTIR, and this machine's processor runs it.

In a zygote whose import path begins with the toolchain's folder, `triton` is triton-ascend, which wants CANN and
torch_npu to launch anything. Here it gets a device that is the processor and says that it is an Ascend chip, so that
kernels are lowered as for the chip, and launches are recorded and run as always.
Invariant: imported in such a zygote only. Named by roles.py as what warms it.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
from collections.abc import Callable
from inspect import isfunction
from typing import Any

from triton._C.libtriton import ir, passes
from triton.backends import Backend, backends
from triton.backends.ascend.compiler import AscendBackend, make_ttir
from triton.language.extra import libdevice
from triton.language.extra.ascend import libdevice as ascends
from triton.runtime import driver

from kernelsmith.devices.kernels import given_target
from kernelsmith.sandbox import warm
from kernelsmith.triton_cpu.driver import CPUDriver
from kernelsmith.triton_cpu.run import obtain, pool
from kernelsmith.triton_cpu.run.build import BuildError
from kernelsmith.triton_cpu.run.launch import entry_of

_DIAGNOSTIC = re.compile(r"^.*:(\d+):\d+\)?: error: (.*)$", re.MULTILINE)
_PRINTED = 1 << 20
_printing = threading.Lock()
"""Held while the process's own error output goes elsewhere."""


class _Compiler(AscendBackend):  # type: ignore[misc]
    """Ascend's options and passes as far as TTIR; then the processor's machine code."""

    def __init__(self, target: Any) -> None:
        super().__init__(target)
        self.binary_ext = "so"

    def add_stages(self, stages: dict[str, Callable[..., Any]], options: Any) -> None:
        stages["ttir"] = lambda module, metadata: _simplified(module, metadata, options)
        stages["so"] = lambda module, metadata: _built(str(module), metadata, options)

    def pack_metadata(self, metadata: Any) -> tuple[int, int]:
        return metadata.num_warps, metadata.num_ctas


class _Utils:
    """What Triton 3.2 asks of a device beside launching."""

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[object, int, int, int]:
        library = pool.load_library(kernel)
        return library, entry_of(library), 1, 0

    def get_device_properties(self, device: int) -> dict[str, int]:
        return {"max_shared_mem": 1}


class _Driver(CPUDriver):
    """The processor, under the name of the chip that the zygote was told."""

    def __init__(self) -> None:
        super().__init__()
        self.utils: Any = _Utils()

    def get_current_target(self) -> Any:
        return given_target()


def warm_up() -> None:
    """Make the processor triton-ascend's only device, and compile something for it."""
    backends.clear()
    backends["ascend"] = Backend(_Compiler, _Driver)
    driver.set_active(_Driver())
    for name in [n for n, value in vars(libdevice).items() if isfunction(value)]:
        setattr(libdevice, name, _missing(name))
    warm.compile_something()


def _missing(name: str) -> Callable[..., Any]:
    """For a function of the module that other devices replace by their own: its calls give None, which nobody
    understands."""

    def call(*_: Any, **__: Any) -> Any:
        own = " or triton.language.extra.ascend.libdevice" if hasattr(ascends, name) else ""
        raise AttributeError(f"triton.language.extra.libdevice.{name} is not there on Ascend: use tl.math{own}")

    return call


def _simplified(module: Any, metadata: dict[str, Any], options: Any) -> Any:
    """After Ascend's passes. What they refuse they print, and raise no more than that they do."""
    with _printing, tempfile.TemporaryFile() as file:
        kept = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            return _without_block_pointers(make_ttir(module, metadata, options))
        except RuntimeError as error:
            file.seek(0)
            said = _DIAGNOSTIC.search(file.read(_PRINTED).decode(errors="replace"))
            raise BuildError(f"line {said[1]}: {said[2]}" if said else str(error)) from error
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _without_block_pointers(module: Any) -> Any:
    """Addresses instead, as upstream's own pass makes them: the processor's reader knows those."""
    if "tt.make_tensor_ptr" in str(module):
        manager = ir.pass_manager(module.context)
        passes.ttir.add_rewrite_tensor_pointer(manager)
        passes.common.add_canonicalizer(manager)
        passes.common.add_cse(manager)
        manager.run(module)
    return module


def _built(ttir: str, metadata: dict[str, Any], options: Any) -> bytes:
    metadata["num_cpu_threads"] = 0
    return obtain.obtain(ttir, metadata, fp_fusion=options.enable_fp_fusion)
