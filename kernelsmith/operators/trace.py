"""Which aten operators a reference calls: found by running it once on tensors without memory where that works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from kernelsmith.errors import USER_ERRORS
from kernelsmith.operators.seeded import seeded


@dataclass(frozen=True)
class Trace:
    """What one run of a reference asked of torch."""

    names: tuple[str, ...]
    """Such as `aten._softmax`, in order of first use."""
    calls: int
    """How many; thousands mean a Python loop over a dim."""
    returns: bool
    """Whether it returned anything."""


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch's own hook. True, the default, imports torch._dynamo at the first call, which takes seconds."""
        return False

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: dict[str, None] = {}
        self.calls = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.names[str(func.overloadpacket)] = None
        self.calls += 1
        return func(*args, **(kwargs or {}))


Attempt = tuple[Callable[..., Any], Callable[[], Sequence[Any]]]
"""A reference and what makes its arguments."""


def traced(cheap: Attempt, real: Attempt) -> Trace:
    """Which aten operators a reference calls.

    Args:
        cheap: a call on the meta device, which costs neither time nor memory; tried first.
        real: a call on tensors with contents, for references that look at values. What this raises is passed on.
    """
    try:
        return _record(*cheap)
    except USER_ERRORS:  # whatever is wrong shows again on real tensors, with a better message
        return _record(*real)


def _record(function: Callable[..., Any], arguments: Callable[[], Sequence[Any]]) -> Trace:
    made = arguments()
    recorder = _Recorder()
    with seeded(0), recorder:
        result = function(*made)
    return Trace(tuple(recorder.names), recorder.calls, result is not None)


def example(shape: tuple[int, ...], dtype: str, device: str, low: float | None, high: float | None) -> torch.Tensor:
    """A tensor of legal values: floats at `low`, integers counting from it along the last dim and below `high`."""
    kind = getattr(torch, dtype)
    if device == "meta" or kind.is_floating_point or kind.is_complex or kind is torch.bool:
        return torch.full(shape, 1.0 if low is None else low, device=device).to(kind)
    start = 0 if low is None else int(low)
    span = max(1, (start + 8 if high is None else int(high)) - start)
    return (torch.arange(shape[-1] if shape else 1, device=device) % span + start).expand(shape).to(kind).contiguous()
