"""Importing this imports Triton, safely even from the modules that Triton itself imports.

`import triton` imports `compiler` and `driver` through the entry point and looks for their classes. If one of them is
what a program imports first, Triton would find it half executed. So it is forgotten here and Triton imports it afresh;
Python then gives the program that second, complete module.
"""

import sys

if "triton" not in sys.modules:
    for _name in ("compiler", "driver"):
        sys.modules.pop(f"kernelsmith.triton_cpu.{_name}", None)
    import triton  # noqa: F401
