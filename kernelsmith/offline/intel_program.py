"""Run by the Python of Intel's toolchain, which has its Triton and nothing of kernelsmith: one kernel's TTIR through
the stages of triton-xpu's own backend to SPIR-V.

    python intel_program.py PACKAGES KERNEL.ttir FOLDER PROPERTIES OPTIONS

PROPERTIES and OPTIONS are JSON: what the backend would ask SYCL about the device, and the launch options. Leaves
`kernel.spv`, `kernel.ll` and `facts.json` in FOLDER; ends with a traceback where it refuses. Neither
SYCL nor a driver is needed: the backend's constructor, which builds a helper against SYCL's headers only to ask for the
name of the chip, is passed over.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main(packages: str, source: str, folder: Path, properties: str, options: str) -> None:
    sys.path.insert(0, packages)
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.backends.intel.compiler import XPUBackend

    known = json.loads(properties)
    backend = object.__new__(XPUBackend)
    backend.target = GPUTarget("xpu", known, max(known["sub_group_sizes"]))
    backend.device_arch = None
    backend.properties = backend.parse_target(known)
    parsed = backend.parse_options(json.loads(options))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    made = ir.parse_mlir_module(source, context)
    made.context = context
    stages: dict[str, Callable[[Any, dict[str, Any]], Any]] = {}
    facts = dict(vars(parsed))
    backend.add_stages(stages, parsed)
    for name, stage in stages.items():
        made = stage(made, facts)
        if name == "llir":
            (folder / "kernel.ll").write_text(made)
    (folder / "kernel.spv").write_bytes(made)
    told = {"warps": facts["num_warps"], "sub_group": facts["threads_per_warp"], "shared": facts["shared"]}
    (folder / "facts.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4], sys.argv[5])
