"""Stands where `@triton.autotune` stood: one measured configuration per tuned workload, no search at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import triton

_workload: ContextVar[int] = ContextVar("workload", default=0)


@contextmanager
def tuned_for(workload: int) -> Iterator[None]:
    """Kernels launched inside use the configuration of this workload."""
    token = _workload.set(workload)
    try:
        yield
    finally:
        _workload.reset(token)


class Baked:
    """A Triton kernel that is launched with the configuration of the workload at hand."""

    def __init__(self, kernel: Any, configs: tuple[triton.Config, ...]) -> None:
        self.kernel, self.configs = kernel, configs

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def run(self, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        config = self.configs[_workload.get() if len(self.configs) > 1 else 0]
        chosen = config.all_kwargs()
        if config.pre_hook is not None:
            config.pre_hook({**dict(zip(self.kernel.arg_names, args, strict=False)), **kwargs, **chosen})
        return self.kernel.run(*args, grid=grid, warmup=warmup, **kwargs, **chosen)


def baked(*configs: triton.Config) -> Callable[[Any], Baked]:
    """Gives a kernel its configurations: one for all workloads, or one per workload in their order."""
    return lambda kernel: Baked(kernel, configs)
