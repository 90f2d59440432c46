"""Triton on the CPU: an out-of-tree backend found through the `triton.backends` entry point.

TTIR text becomes C++ (`codegen`), C++ becomes a shared library (`build`), and a thread pool runs it (`pool`). Importing
this package, its `compiler` and its `driver` needs nothing but the standard library and Triton, because every
`import triton` on the machine does so.
"""

from kernelsmith.triton_cpu.run.pool import get_num_threads, set_num_threads

__all__ = ["get_num_threads", "set_num_threads"]
