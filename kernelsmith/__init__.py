"""What operator files import: `from kernelsmith import Dim, operator, tensor, workload`.

Names load on first use, for `import triton` imports this package through its backend entry point: it must stay light
and must never pull in torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelsmith.operators.declare import operator, scalar, tensor, tensors, workload
    from kernelsmith.operators.expressions import Dim

__all__ = ["Dim", "operator", "scalar", "tensor", "tensors", "workload"]

_HOMES = {
    "Dim": "kernelsmith.operators.expressions",
    "operator": "kernelsmith.operators.declare",
    "scalar": "kernelsmith.operators.declare",
    "tensor": "kernelsmith.operators.declare",
    "tensors": "kernelsmith.operators.declare",
    "workload": "kernelsmith.operators.declare",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
