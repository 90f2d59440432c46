"""What the front end of Intel's Triton decides when Python becomes TTIR, for a Triton without Intel's backend.

As in triton-xpu 3.3.0b1, `backends/intel/compiler.py`, for Xe HPC: dots of float32 are `tf32` unless the kernel says
otherwise, a dot has a least size, and float8 has these types. Functions of libdevice keep CUDA's names, which
`offline.intel` translates. Imported by `lowering` when a kernel is lowered for such a chip.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from triton.backends.compiler import GPUTarget

from kernelsmith.triton_cpu.compiler import CPUBackend, CPUOptions

_REPEAT, _LANES, _DEPTH = 8, 16, 8
"""Rows, columns and systolic depth of one matrix instruction."""


class IntelFront(CPUBackend):
    """The passes on TTIR are the CPU's: they only simplify, and make descriptors pointers."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return bool(target.backend == "xpu")

    def parse_options(self, opts: dict[str, Any]) -> CPUOptions:
        return replace(
            super().parse_options(opts),
            backend_name="intel",
            default_dot_input_precision="tf32",
            allowed_dot_input_precisions=("tf32", "tf32x3", "ieee"),
            supported_fp8_dtypes=("fp8e5", "fp8e4nv", "fp8e4b15"),
        )

    def get_codegen_implementation(self, options: CPUOptions) -> dict[str, Callable[..., Any]]:
        return {**super().get_codegen_implementation(options), "min_dot_size": _least_dot}


def _least_dot(lhs: Any, rhs: Any) -> tuple[int, int, int]:
    widest = max(lhs.scalar.primitive_bitwidth, rhs.scalar.primitive_bitwidth)
    return _REPEAT, _LANES, _DEPTH * min(8, 32 // widest)
