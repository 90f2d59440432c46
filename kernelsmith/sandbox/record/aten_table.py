"""Which aten calls a host function may make, and the steps that each becomes.

Allocation, fill, copy (casts, clone, cat, stack, pad, repeat), view, small constants and reads; everything else that
touches tensors computes, and belongs into a kernel. Invariant: the table is closed: what is not in it is refused by
name, and the plan never holds less than the call did. The recorder runs host functions under `AtenRecorder`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._library.custom_ops import OPDEFS
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from kernelsmith.sandbox.record.recording import Recording, reason

_Handler = Callable[[Recording, Any, dict[str, Any], Callable[[], Any]], Any]
"""Given the recording, the operator, its arguments by name, and the call itself."""


class AtenRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs every aten call of the host function and writes down what it does."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch's own hook. True, the default, imports torch._dynamo at the first call: seconds, in every fork."""
        return False

    supports_higher_order_operators = True

    def __init__(self, recording: Recording) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._recording = recording

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            if func.__name__ != _WRAPPED_LAUNCH:
                self._recording.refuse("calls", func.__name__)
            return func(*args, **kwargs)
        namespace, _, name = func.name().partition("::")
        if namespace not in ("aten", "prim"):
            return self._custom(func, args, kwargs)
        handler = _handler(func, name.partition(".")[0])
        try:
            return handler(self._recording, func, _by_name(func, args, kwargs), lambda: func(*args, **kwargs))
        except ValueError as error:
            self._recording.refuse(f"calls aten.{name} on a tensor that no plan can hold ({reason(error)})")
            return func(*args, **kwargs)

    def _custom(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """The body of a custom operator is host code like any other, once it runs under this mode."""
        definition = OPDEFS.get(func._schema.name)
        if definition is None:
            self._recording.refuse("calls, without its steps being seen,", func.name())
            return func(*args, **kwargs)
        with self:
            return definition._init_fn(*args, **kwargs)


_WRAPPED_LAUNCH = "triton_kernel_wrapper_mutation"
"""What `torch.library.wrap_triton` makes of a launch; the launch hook sees it."""

_LAZY_VIEWS = frozenset({"_conj", "_neg_view"})
"""Views that change values when they are read: no strides say so."""


def _handler(func: Any, name: str) -> _Handler:
    if func._schema.is_mutable and not name.endswith("_"):  # the `out=` forms
        return _other
    if func.is_view and name not in _LAZY_VIEWS | _TABLE.keys():
        return _view
    return _TABLE.get(name, _other)


def _by_name(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    schema = func._schema.arguments
    named = {a.name: a.default_value for a in schema if a.has_default_value()}
    return named | {a.name: value for a, value in zip(schema, args, strict=False)} | kwargs


def _view(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    return call()


def _allocate(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    out = call()
    recording.allocated(out)
    return out


def _filled(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    """All elements of the result are the same, so any of them says which."""
    out = call()
    recording.allocated(out)
    if out.numel() and out.device.type != "meta":
        recording.fill(out, out[(0,) * out.dim()].item())
    return out


def _fill_in_place(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    value = arguments.get("value", 0)
    target = arguments["self"]
    if isinstance(value, torch.Tensor):
        recording.copy(target, value)
    else:
        recording.fill(target, value)
    return call()


def _copy_in_place(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    recording.copy(arguments["self"], arguments["src"])
    return call()


def _copied(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    source = arguments["self"]
    out = call()
    recording.allocated(out)
    if out.device != source.device:
        recording.refuse(f"moves a tensor from {source.device} to {out.device}")
    recording.copy(out, source)
    return out


def _concatenated(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    out = call()
    recording.allocated(out)
    axis = arguments.get("dim", 0) % max(out.dim(), 1)
    at = 0
    for part in arguments["tensors"]:
        if part.dim() == out.dim():  # torch lets empty one-dimensional tensors stand among any others
            recording.copy(out.narrow(axis, at, part.shape[axis]), part)
            at += part.shape[axis]
    return out


def _stacked(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    out = call()
    recording.allocated(out)
    axis = arguments.get("dim", 0) % out.dim()
    for at, part in enumerate(arguments["tensors"]):
        recording.copy(out.select(axis, at), part)
    return out


def _padded(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    source, pads = arguments["self"], arguments["pad"]
    out = call()
    recording.allocated(out)
    recording.fill(out, torch.full((), arguments.get("value", 0), dtype=out.dtype).item())
    inside = out
    for i in range(len(pads) // 2):
        axis, before, after = source.dim() - 1 - i, pads[2 * i], pads[2 * i + 1]
        kept = source.shape[axis] + min(before, 0) + min(after, 0)
        source = source.narrow(axis, max(-before, 0), kept)
        inside = inside.narrow(axis, max(before, 0), kept)
    recording.copy(inside, source)
    return out


def _repeated(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    """As a copy between views with a dimension of repeats before each dimension; the source is broadcast."""
    source, repeats = arguments["self"], arguments["repeats"]
    out = call()
    recording.allocated(out)
    if not out.numel():
        return out
    while source.dim() < len(repeats):
        source = source.unsqueeze(0)
    split = [n for pair in zip(repeats, source.shape, strict=True) for n in pair]
    for axis in range(len(repeats)):
        source = source.unsqueeze(2 * axis)
    recording.copy(out.view(split), source)
    return out


def _constant(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    out = call()
    recording.constant(out)
    return out


def _other(recording: Recording, func: Any, arguments: dict[str, Any], call: Callable[[], Any]) -> Any:
    """What is read into Python leaves no step, since the plans of other contents show it; the rest computes."""
    out = call()
    reads = not func._schema.is_mutable and not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(out))
    if not reads:
        recording.refuse("computes with", func._schema.name.replace("::", "."))
    return out


_TABLE: dict[str, _Handler] = {
    **dict.fromkeys(
        ("empty", "empty_strided", "empty_like", "empty_permuted", "new_empty", "new_empty_strided"), _allocate
    ),
    **dict.fromkeys(("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"), _filled),
    **dict.fromkeys(("full", "full_like", "new_full", "scalar_tensor"), _filled),
    **dict.fromkeys(("fill_", "zero_"), _fill_in_place),
    **dict.fromkeys(("clone", "_to_copy"), _copied),
    **dict.fromkeys(("lift_fresh", "arange"), _constant),
    "_unsafe_view": _view,
    "copy_": _copy_in_place,
    "cat": _concatenated,
    "stack": _stacked,
    "constant_pad_nd": _padded,
    "repeat": _repeated,
}
