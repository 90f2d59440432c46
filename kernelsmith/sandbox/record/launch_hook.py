"""Sees every launch of a Triton kernel in this process.

The hook sits where a compiled kernel gets its launcher, below `JITFunction.run`: host code that keeps compiled kernels
and launches them itself is seen as well. Invariant: a launch that the observer has not seen did not go through Triton.
The recorder installs it once per process, before any kernel is launched.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Grid = tuple[int, int, int]
Observer = Callable[[Any, Grid, int, tuple[Any, ...]], None]
"""Called with the `CompiledKernel`, the grid, the stream and the run-time arguments (constexprs included)."""

_HOOKS = 4  # packed metadata, launch metadata, enter and exit hook stand before a kernel's own arguments


class LaunchHook:
    """`observe` sees each launch before it runs, `replace` says what the kernel gets for an argument, and with `run`
    false the kernel does not run at all."""

    def __init__(self) -> None:
        self.observe: Observer | None = None
        self.replace: Callable[[Any], Any] | None = None
        self.run = True

    def install(self) -> None:
        """From now on, for every kernel of this process."""
        from triton.compiler import CompiledKernel

        older = not hasattr(CompiledKernel, "run")  # as Triton 3.2, which triton-ascend follows
        launcher = "run" if older else "_run"
        original = CompiledKernel._init_handles

        def init_handles(kernel: Any) -> None:
            if kernel.module is None:
                if older:
                    _mark_constants(kernel.src)
                original(kernel)
                setattr(kernel, launcher, self._wrap(kernel, getattr(kernel, launcher)))

        CompiledKernel._init_handles = init_handles

    def _wrap(self, kernel: Any, launcher: Callable[..., Any]) -> Callable[..., Any]:
        def launch(x: int, y: int, z: int, stream: int, function: Any, *rest: Any) -> Any:
            if self.observe is not None:
                self.observe(kernel, (x, y, z), stream, rest[_HOOKS:])
            if self.replace is not None:
                rest = (*rest[:_HOOKS], *map(self.replace, rest[_HOOKS:]))
            return launcher(x, y, z, stream, function, *rest) if self.run else None

        return launch


def _mark_constants(source: Any) -> None:
    """Say of an argument that was specialised away that it is a constant, as newer signatures do."""
    kinds = source.signature.items()
    source.signature = {name: "constexpr" if name in source.constants else kind for name, kind in kinds}
