"""What `triton.language.extra.libdevice` means on the CPU: what it means on CUDA.

Each call becomes a `tt.extern_elementwise` with CUDA's symbol (`__nv_expf`), for which `libdevice` has a meaning, so
kernels that import CUDA's own module compile alike. Imported by `compiler` when a kernel is compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from triton.language import core
from triton.language.extra.cuda import libdevice as cuda


def _fast_tanhf(arg0: Any, _semantic: Any = None) -> Any:
    return cuda.tanh(arg0, _semantic=_semantic)


fast_tanhf: Callable[..., Any] = core.extern(_fast_tanhf)
"""A name that only HIP's module has."""


def __getattr__(name: str) -> Any:
    function = getattr(cuda, name, None)
    if function is None:
        raise AttributeError(f"libdevice function {name!r} is not provided on the CPU")
    return function


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(cuda)})
