"""Kernels of well-known Triton libraries, judged like any candidate: see `__main__`."""
