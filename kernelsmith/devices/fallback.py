"""Operators that a device lacks, told apart from those that it has: plugins compute them on the CPU and say nothing, or
say it once (torch_npu: "will fall back to run on the CPU"), and a baseline that is timed so is not the device's.

A plugin's fallback is, or ends in, `at::native::cpu_fallback`, which takes its tensors to the CPU by the operator
`aten::_to_cpu`; nothing else does. So one kernel of ours for that operator makes an error of every such fallback: shown
with PyTorch's OpenReg, read in torch_npu (VariableFallbackKernel.cpp). Kernels that a plugin registers as its own and
that compute on the CPU are seen by its own switch alone (`no_fallback` of the target's file). Invariant: as long as
nothing falls back, nothing is slower. Called by the baseline's process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_SAID = ("not implemented", "not supported", "unsupported", "cpu fallback")
"""In errors of the libraries below a plugin, and of torch_npu's switch: "CPU fallback is disabled by ..."."""


class FallbackError(Exception):
    """The device has no such operator; torch would have computed it on the CPU."""


class _Named(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Knows which operator is at work."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.last = "an operator"

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.last = str(func)
        return func(*args, **(kwargs or {}))


def refuse(kind: str) -> object:
    """From now on, a fallback of this torch device raises FallbackError; as long as what is returned is kept."""
    library: Any = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    library.impl("_to_cpu", _refused, torch._C._dispatch_key_for_device(kind))
    return library


def named(call: Callable[[], object]) -> None:
    """Make a call that may not fall back. Raises what it raises; an error that says that the device lacks an operator
    as a FallbackError with its name."""
    watching = _Named()
    try:
        with watching:
            call()
    except Exception as error:
        if not _lacking(error):
            raise
        said = "" if isinstance(error, FallbackError) else f": {(str(error).splitlines() or [''])[0]}"
        raise FallbackError(f"the device has no {watching.last}{said}") from error


def _lacking(error: Exception) -> bool:
    said = str(error).lower()
    return isinstance(error, FallbackError | NotImplementedError) or (
        isinstance(error, RuntimeError) and any(words in said for words in _SAID)
    )


def _refused(tensors: list[torch.Tensor]) -> NoReturn:
    raise FallbackError("the device lacks an operator that torch would compute on the CPU")
