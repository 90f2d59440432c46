"""Kernels for Intel's GPUs without one: triton-xpu's own pipeline from TTIR to SPIR-V, run by the Python of its
toolchain (`intel_program`), and what can be read from what it leaves.

SPIR-V is where Triton ends: registers and spills are decided by the driver's compiler (IGC, `ocloc`), which no package
index has, so they stay unknown. Invariant: called in the compiler's confined process only; what a device would be asked
is `_PROPERTIES`.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

from pydantic import Field

from kernelsmith.base import Frozen
from kernelsmith.compiled import Chip, Resources
from kernelsmith.errors import InfrastructureError
from kernelsmith.plan import Kernel
from kernelsmith.toolchains import Installed, interpreter

PLACE_VARIABLE, PYTHON_VARIABLE = "KERNELSMITH_INTEL", "KERNELSMITH_INTEL_PYTHON"
"""Name the toolchain's folder and what runs it, in the environment of the compiler's process."""
_PROGRAM = Path(__file__).with_name("intel_program.py")
_PROPERTIES = {
    "pvc": {
        "sub_group_sizes": [16, 32],
        "has_fp64": True,
        "has_subgroup_matrix_multiply_accumulate": True,
        "has_subgroup_matrix_multiply_accumulate_tensor_float32": True,
        "has_subgroup_2d_block_io": True,
        "has_bfloat16_conversions": True,
    }
}
"""By chip. Sub-groups: Intel Fortran guide, -fopenmp-target-default-sub-group-size. The rest are names of OpenCL
extensions that triton-xpu asks a driver for; that Xe HPC has them is taken for granted, not seen on one."""
_MATRIX = re.compile(r"\bcall\b[^@\n]*@_Z\d+intel_sub_group_(\w+?_matrix_mad_k\d+)")
_UNRESOLVED = re.compile(r"^declare[^@\n]*@(__imf_\w+)\(", re.MULTILINE)


class Facts(Frozen):
    """What its program tells beside the texts."""

    warps: int = Field(gt=0, le=1024)
    sub_group: int = Field(gt=0, le=64)
    shared: int = Field(ge=0, lt=2**40)


def told(toolchain: Installed) -> dict[str, str]:
    """What a compiler's process is told of it."""
    python = interpreter(toolchain.python)
    return {PLACE_VARIABLE: str(toolchain.folder), **({} if python is None else {PYTHON_VARIABLE: python})}


def compiled(kernel: Kernel, chip: Chip, scratch: Path) -> Resources:
    """What its compiler tells of the kernel. What it says goes to this process's own output.

    Raises ValueError where it refuses the kernel, InfrastructureError where it is not there.
    """
    place, python = os.environ.get(PLACE_VARIABLE), os.environ.get(PYTHON_VARIABLE)
    properties = _PROPERTIES.get(str(chip.arch))
    if place is None or properties is None:
        raise InfrastructureError(f"no compiler for {chip.label} here", "kernelsmith targets install TARGET")
    if python is None:
        raise InfrastructureError(
            f"no Python here runs the compiler for {chip.label}", "install the one that its wheels are for, or it again"
        )
    source = scratch / "kernel.ttir"
    source.write_text(kernel.ttir.replace("__nv_", "__imf_"), encoding="utf-8")
    options = {name: value for name, value in kernel.options.items() if value is not None}
    words = [python, "-I", "-B", "-S", str(_PROGRAM), place, str(source), str(scratch)]
    environment = {"HOME": str(scratch), "PATH": ""}  # it would ask an `ocloc` that it finds
    try:
        done = subprocess.run(
            [*words, json.dumps(properties), json.dumps(options)],
            cwd=scratch,
            env=environment,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except OSError as error:
        raise InfrastructureError(f"{python} cannot be run: {error}", "install the toolchain again") from error
    if done.returncode:
        died = f" and dies of it ({signal.Signals(-done.returncode).name})" if done.returncode < 0 else ""
        raise ValueError(f"Intel's compiler refuses it{died}")
    text = (scratch / "kernel.ll").read_text(encoding="utf-8", errors="replace")
    facts = Facts.model_validate_json((scratch / "facts.json").read_bytes())
    return read(text, facts, (scratch / "kernel.spv").stat().st_size)


def read(text: str, facts: Facts, nbytes: int) -> Resources:
    """From the LLVM IR that SPIR-V was made of."""
    if missing := sorted(set(_UNRESOLVED.findall(text))):
        raise ValueError(f"Intel's libdevice has no {', '.join(name.removeprefix('__imf_') for name in missing)}")
    dpas = Counter(_MATRIX.findall(text))
    return Resources(
        warps=facts.warps,
        threads=facts.warps * facts.sub_group,
        sub_group=facts.sub_group,
        shared_bytes=facts.shared,
        spirv_bytes=nbytes,
        matrix_instructions={f"dpas {name.replace('_matrix_mad', '')}": n for name, n in sorted(dpas.items())},
    )
