"""The compiler half of the Triton backend: options, the passes on TTIR, and the stage that makes a shared library.

Invariant: imported by every `import triton`, so nothing but the standard library and Triton at module level, and
exactly one concrete subclass of BaseBackend. Works with Triton 3.6 to 3.9 from one source. Called by Triton.
"""

from __future__ import annotations

from kernelsmith.triton_cpu import triton_first  # noqa: F401  # isort: skip

import functools
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from types import ModuleType
from typing import Any

from triton import knobs
from triton._C.libtriton import ir, passes
from triton.backends.compiler import BaseBackend, GPUTarget

from kernelsmith.errors import UsageError
from kernelsmith.triton_cpu.isa import host_isa
from kernelsmith.triton_cpu.run import build, launch, obtain, pool

# Ops that an earlier stage removes; a module read from a file skipped that stage.
_UNSIMPLIFIED = ("tt.call", "tt.make_tensor_ptr", "!tt.tensordesc")


@dataclass(frozen=True)
class CPUOptions:
    """Every option that Triton 3.6 to 3.9 defines for CUDA or HIP, so that a kernel tuned there compiles here too.

    Few mean anything on a CPU: `enable_fp_fusion`, `debug`, `sanitize_overflow`, the dot precisions, the fp8 types and
    `num_cpu_threads` (of each launch of this kernel; 0: as `set_num_threads` says).
    Anything else is Triton's own KeyError for an unknown keyword.
    """

    num_warps: int = 4
    num_ctas: int = 1
    num_stages: int = 3
    warp_size: int = 1
    cluster_dims: tuple[int, ...] = (1, 1, 1)
    num_cpu_threads: int = 0
    debug: bool = False
    sanitize_overflow: bool = True
    arch: str | None = None
    backend_name: str = "cpu"
    enable_fp_fusion: bool = True
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4b15", "fp8e4b8", "fp8e4nv", "fp8e5", "fp8e5b16")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    default_dot_input_precision: str = "ieee"
    max_num_imprecise_acc_default: int = 0
    extern_libs: tuple[tuple[str, str], ...] = ()
    instrumentation_mode: str = ""
    ir_override: str | None = None
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    allow_flush_denorm: bool = False
    clc: bool = False
    enable_reflect_ftz: bool = False
    fpsan_homomorphic_casts: bool = False
    kpack: int = 1
    llvm_fn_attrs: str | tuple[str, ...] = ()
    matrix_instr_nonkdim: int = 0
    maxnreg: int | None = None
    min_shared_mem: int | None = None
    ptx_options: str | None = None
    ptx_version: int | None = None
    sched4reg: bool | None = None
    schedule_hint: str = "none"
    waves_per_eu: int = 0
    wgp_cu_mode: bool | None = None
    given: tuple[str, ...] = ()
    """Names of those that the launch named: another device has other defaults for the rest."""

    def __post_init__(self) -> None:
        if self.num_warps < 1 or self.num_warps & (self.num_warps - 1):
            raise AssertionError(f"num_warps must be a power of 2, not {self.num_warps}")  # as on a GPU
        if not 0 <= self.num_cpu_threads <= pool.MAX_THREADS:
            raise UsageError(f"num_cpu_threads must be in 0..{pool.MAX_THREADS}, not {self.num_cpu_threads}")

    @property
    def enable_iisan(self) -> bool:
        """Read by some front ends; an instrumentation that only a GPU has."""
        return False

    def hash(self) -> str:
        text = "_".join(f"{name}-{value}" for name, value in sorted(self.__dict__.items()))
        return hashlib.sha256(text.encode()).hexdigest()


_OPTION_NAMES = tuple(field.name for field in fields(CPUOptions))


class CPUBackend(BaseBackend):  # type: ignore[misc]
    """Triton's view of this package; one object per compilation."""

    binary_ext = "so"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return bool(target.backend == "cpu")

    def hash(self) -> str:
        """Part of Triton's cache key: our sources, the C++ compiler, its flags and this processor."""
        return f"{_identity()}{'-checked' if checked_builds() else ''}"

    def parse_options(self, opts: dict[str, Any]) -> CPUOptions:
        given = {name: opts[name] for name in _OPTION_NAMES if opts.get(name) is not None}
        if isinstance(given.get("extern_libs"), dict):
            given["extern_libs"] = tuple(sorted(given["extern_libs"].items()))
        given = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
        given.setdefault("given", tuple(sorted(given)))
        given["enable_fp_fusion"] = _fp_fusion(given.get("enable_fp_fusion"))
        given.setdefault("arch", self.target.arch)
        return CPUOptions(**given)

    def add_stages(self, stages: dict[str, Callable[..., Any]], options: CPUOptions, language: object = None) -> None:
        stages["ttir"] = lambda module, metadata: _simplify(module)
        if obtain.built_elsewhere():
            fused = options.enable_fp_fusion
            stages["so"] = lambda module, metadata: obtain.obtain(_text(module), metadata, fp_fusion=fused)
            return
        stages["cpp"] = lambda module, metadata: _generate(module, metadata, options)
        stages["so"] = lambda source, metadata: _build(source, options)

    def load_dialects(self, context: Any) -> None:
        """TTIR needs no dialect beyond Triton's own."""

    def get_module_map(self) -> dict[str, ModuleType]:
        from kernelsmith.triton_cpu import libdevice_calls

        return {"triton.language.extra.libdevice": libdevice_calls}

    def get_codegen_implementation(self, options: CPUOptions) -> dict[str, Callable[..., Any]]:
        from kernelsmith.triton_cpu.custom_types import convert_custom_types

        return {"min_dot_size": lambda lhs, rhs: (1, 1, 1), "convert_custom_types": convert_custom_types}

    def pack_metadata(self, metadata: Any) -> tuple[int, int]:
        return metadata.num_warps, metadata.num_ctas


def checked_builds() -> bool:
    """Whether kernels are compiled as checked builds: `KERNELSMITH_CPU_CHECKED` is set to other than 0."""
    return os.environ.get("KERNELSMITH_CPU_CHECKED", "0") not in ("", "0")


@functools.cache
def _identity() -> str:
    return f"{launch.source_hash()}-{build.identification(host_isa())}"


def _fp_fusion(requested: bool | None) -> bool:
    """What Triton's own knobs decide, but without 3.9's warning at each process about a later default."""
    language = knobs.language
    if getattr(language, "force_disable_fp_fusion", False):
        return False
    return bool(language.default_fp_fusion if requested is None else requested)


def _simplify(module: Any) -> Any:
    manager = ir.pass_manager(module.context)
    manager.enable_debug()  # MLIR_ENABLE_DUMP, TRITON_REPRODUCER_PATH and their like
    passes.common.add_inliner(manager)
    if hasattr(passes.ttir, "add_rewrite_tensor_pointer"):  # block pointers are gone since Triton 3.8
        passes.ttir.add_rewrite_tensor_pointer(manager)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
    passes.common.add_canonicalizer(manager)
    passes.ttir.add_combine(manager)
    passes.ttir.add_reorder_broadcast(manager)
    passes.common.add_cse(manager)
    passes.ttir.add_triton_licm(manager)
    passes.common.add_symbol_dce(manager)
    passes.ttir.add_loop_unroll(manager)
    manager.run(module, "make_ttir")
    return module


def _generate(module: Any, metadata: dict[str, Any], options: CPUOptions) -> str:
    """The C++ of a kernel, a stage of its own so that Triton shows it (`compiled.asm`, TRITON_KERNEL_DUMP)."""
    from kernelsmith.triton_cpu.emit import codegen

    text = _text(module)
    kernel = codegen.generate(text, fp_fusion=options.enable_fp_fusion, checked=checked_builds(), isa=host_isa())
    obtain.describe(kernel, metadata)
    return kernel.source


def _text(module: Any) -> str:
    text = str(module)
    return str(_simplify(module)) if any(name in text for name in _UNSIMPLIFIED) else text


def _build(source: str, options: CPUOptions) -> bytes:
    return build.compile_shared(source, host_isa(), fp_fusion=options.enable_fp_fusion)
